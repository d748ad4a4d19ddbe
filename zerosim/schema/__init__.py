"""What a trace can say: its rows, and the records that they hold.

    events       what happened: collectives, messages, copies, computations
    rows         a row with its checksum; `rowtext` writes a record's fields as JSON
    memory       the roles of what is alive in memory
    manifest     what a run was
    strategies   how a program divides its training, as it says of itself
    c10d         which arguments of an operator of `torch.distributed` say what
    stands       what a held thread stands before
    faults       what goes wrong on purpose
    attach       how ranks that run are called

Those who write a trace (`trace`) and those who read one (`record`) share this and nothing else.
Begin with `events`.
"""
