"""A folder for each way to divide a training among ranks, and the registry that knows them.

    registry    which systems there are, also those of other packages; a part of one by its name
    catalogue   which of them `zerosim profiles` runs, and `step`, what these runs share

A folder has what others ask of the system: `observe` (how it is found in a program), `plan` (its
law and calls), `states` (what a rank keeps), `frames` (which rank holds which shard when), `run`
(how zerosim trains with it). zerosim's own engine is in `zerosim.train`, its law in
`zerosim.theory`: it is what all others are compared with. A hand-written program belongs to no
system; `theory.programs.hand_written` says which law it is like.

Units and bundles of a program's first model have their names in it; those of others the model's
name before them, which is also the strategy's option `label`. A model that a micro-step does
without spans this rank alone, and so communicates nothing. The other options of a `Strategy` are
listed in each folder.
"""
