"""DDP: `torch.nn.parallel.DistributedDataParallel`, data parallel with buckets of gradients.

Options of its `Strategy`, which has one bundle, "model":

    forwards, backwards   of the model in the micro-step, with gradients
    buckets               elements of each bucket as DDP reports them, with bucket_dtypes and
                          bucket_parameters
    reduces               whether its backward does
    without_gradient      parameters that this backward gave none, though the reducer waited for it
    ignored               parameters that DDP was told to ignore
    buffer_elements       by dtype, of buffers that are broadcast in the forward; none after one
                          that prepared no reduction
    buffer_syncs          how many forwards of the micro-step do that
    finds_unused
    comm_hook             its name, "" if none
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
