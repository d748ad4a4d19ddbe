"""One folder for each way to partition training, and the registry of these systems.

    registry    the systems, including those of other packages; their parts by name
    catalogue   those that `zerosim profiles` runs, and `step`, their shared code

The parts of a folder: `observe` (finds the system in a program), `plan` (its law and calls),
`states` (the memory of a rank), `frames` (the shards of each rank over time), `run` (how zerosim
trains with it). zerosim's own engine is in `zerosim.train`, its law in `zerosim.theory`: it is the
reference for all others. A hand-written program belongs to no system;
`theory.programs.hand_written` finds the law that it resembles.

Units and bundles of a program's first model are named as in the model; those of other models have
the model's name in front, which is also the strategy's option `label`. The strategy of a model that
is not used in a micro-step spans this rank alone, and so communicates nothing. The other options of
a `Strategy` are listed in
each folder.
"""
