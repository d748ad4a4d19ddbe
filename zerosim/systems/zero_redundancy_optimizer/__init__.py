"""`torch.distributed.optim.ZeroRedundancyOptimizer`: partitioned optimizer states, beside DDP.

Options of its `Strategy`: `bucket_view` (parameters_as_bucket_view). One bundle for each rank,
"rank 0", has the parameters that it updates (`owner`: global rank).
"""

from zerosim.schema.memory import OPTIMIZER_STATES
from zerosim.systems.ddp import NAME as DDP
from zerosim.systems.registry import Axis, System

NAME = "ZeroRedundancyOptimizer"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.OPTIMIZER,
    joins=DDP,
    divides=frozenset(OPTIMIZER_STATES),
    has_whole_model=True,
    ends_with_its_model=True,
)
