"""DDP: `torch.nn.parallel.DistributedDataParallel`, data parallel with buckets of gradients.

Options of its `Strategy`, which has one bundle, "model":

    forwards, backwards   of the model in the micro-step, with gradients
    buckets               elements of each bucket as DDP reports them, with bucket_dtypes and
                          bucket_parameters
    reduces               whether its backward reduces
    without_gradient      parameters without a gradient in this backward, for which the reducer
                          waited
    ignored               parameters that DDP is configured to ignore
    buffer_elements       elements of buffers broadcast in the forward, by dtype; none after one
                          that prepared no reduction
    buffer_syncs          number of forwards of the micro-step with such a broadcast
    finds_unused
    comm_hook             its name, "" if none
    no_gradient, no_states, used_at_once, states
                          of its parameters when the last update began (`GivenGradients`)
"""

from zerosim.schema.memory import MODEL_STATES
from zerosim.systems.registry import Axis, System

NAME = "DDP"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    replicates=frozenset(MODEL_STATES),
    has_whole_model=True,
    ends_with_its_model=True,
)
