"""DDP: `torch.nn.parallel.DistributedDataParallel`, data parallel with buckets of gradients."""

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
