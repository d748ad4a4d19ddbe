"""Pipeline parallel: `torch.distributed.pipelining`, the layers in stages on different ranks.

Options of its `Strategy`: `schedule`, `num_stages`, `num_microbatches`, `ranks_by_stage`; and of
its bundles, one for each stage of this rank, "stage 1":

    index
    output_shapes, dtypes   its outputs for one micro-batch, [] for the last stage
    output_gradients        which of them receive a gradient
    input_shapes, input_dtypes, input_gradients   the same for inputs
"""

from zerosim.systems.registry import Axis, System

NAME = "pipeline parallel"
SYSTEM = System(name=NAME, package=__name__, axis=Axis.PIPELINE)
