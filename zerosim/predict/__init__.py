"""What would happen: at other times, on other machines, at sizes that nobody has here.

    placement    every event of a run at the time that a cost model gives it; machines
    simulate     a dry run: what N ranks would do, in one process
    plan         layouts of a model on so many GPUs, the fastest first

Everything that it gives is called predicted. It has no ledger and no law of its own: bytes are
those of `theory`, times those of `placement`. Begin with `placement.place`.
"""
