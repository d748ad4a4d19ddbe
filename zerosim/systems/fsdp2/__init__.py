"""FSDP2: `torch.distributed.fsdp.fully_shard` shards each parameter by rows; on a 2-D mesh, HSDP.

Options of its `Strategy`:

    forwards, backwards           of the model in the micro-step, with gradients
    returns                       number of forwards that those backwards pass through
    undivided, undivided_frozen   elements of all other parameters, by dtype
    undivided_states              of the trainable ones, by dtype and names of their states
    no_gradient, no_states, used_at_once, states
                                  of its parameters when the last update began (`GivenGradients`)

and of its bundles, one for each wrapped module, named as the module, the outermost "root":

    shard_ranks; replicate_ranks: [] if not hybrid
    parameter_dtype, reduce_dtype; shard_dims
    reshards_after_forward, reshards_after_backward, reduces
    all_reduces                   over the replicas, too
    is_used                       its modules computed in the micro-step
    without_gradient              parameters without a gradient in the micro-step's backward
    reshard_ranks                 the ranks among which it is sharded after forward, if fewer
    starts_whole                  gathered already when the micro-step begins
    is_fed                        a trained module precedes it: its input has a gradient
    is_reached                    a trained module is in it or precedes it
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
