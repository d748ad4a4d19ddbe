"""FSDP1: `torch.distributed.fsdp.FullyShardedDataParallel`; a module is one flat parameter.

Options of its `Strategy`: `forwards`, `backwards` of the model in the micro-step, with gradients;
`no_gradient`, `no_states`, `used_at_once`, `states` of its flat parameters, or of the original ones
in them, when the last update began (`GivenGradients`); and of its bundles, one for each wrapped
module, named as the module, the outermost "root":

    shard_ranks; replicate_ranks: [] if not hybrid
    parameter_dtype, reduce_dtype
    reshards_after_forward, reshards_after_backward, reduces
    starts_whole                  whole already when the micro-step begins
    is_used                       its module computed in the micro-step
    padded_elements               of its flat parameter
"""

from zerosim.systems.registry import Axis, System

NAME = "FSDP1"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    ends_with_its_model=True,
)
