"""Pipeline parallel: `torch.distributed.pipelining`, the layers in stages on different ranks.

Options of its `Strategy`: `schedule`, `num_stages`, `num_microbatches`, `ranks_by_stage`; and of
its bundles, one for each stage of this rank, "stage 1":

    index
    output_shapes, dtypes   what it sends on for one micro-batch, [] for the last
    output_gradients        which of them have a gradient that comes back
    input_shapes, input_dtypes, input_gradients   likewise
"""

from zerosim.systems.registry import Axis, System

NAME = "pipeline parallel"
SYSTEM = System(name=NAME, package=__name__, axis=Axis.PIPELINE)
