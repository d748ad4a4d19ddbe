"""Predictions: at other times, on other machines, at sizes that are not available.

    placement    every event of a run at the time that a cost model gives it; machines
    simulate     a dry run: the work of N ranks, in one process
    plan         layouts of a model on so many GPUs, the fastest first

All its results are labelled as predicted. It has no ledger and no law of its own: bytes come from
`theory`, times from `placement`. Begin with `placement.place`.
"""
