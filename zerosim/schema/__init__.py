"""The schema of a trace: its rows and the records in them.

    events       events: collectives, messages, copies, computations
    rows         a row with its checksum; `rowtext` writes a record's fields as JSON
    memory       live tensors by role
    manifest     the description of a run
    strategies   how a program partitions its training, as it declares it
    c10d         the meaning of the arguments of operators of `torch.distributed`
    stands       the next event of a paused thread
    faults       injected faults
    attach       how a debugger attaches to running ranks

The writer of a trace (`trace`) and its readers (`record`) share this package and nothing else.
Begin with `events`.
"""
