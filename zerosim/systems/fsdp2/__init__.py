"""FSDP2: `torch.distributed.fsdp.fully_shard`, each parameter by its rows; on a 2-D mesh HSDP.

Options of its `Strategy`:

    forwards, backwards           of the model in the micro-step, with gradients
    returns                       how many forwards those backwards go back through
    undivided, undivided_frozen   elements of all other parameters, by dtype

and of its bundles, one for each wrapped module, named as the module, the outermost "root":

    shard_ranks; replicate_ranks: [] if not hybrid
    parameter_dtype, reduce_dtype; shard_dims
    reshards_after_forward, reshards_after_backward, reduces
    all_reduces                   over the replicas, too
    is_used                       its modules computed in the micro-step
    without_gradient              parameters that the micro-step's backward gave none
    reshard_ranks                 those among whom it is divided after forward, if fewer
    starts_whole                  whole already when the micro-step begins
    is_fed                        something that is trained is before it: its input has a gradient
    is_reached                    something that is trained is in it or before it
"""

from zerosim.systems.registry import Axis, System

NAME = "FSDP2"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    ends_with_its_model=True,
)
