"""FSDP1: `torch.distributed.fsdp.FullyShardedDataParallel`; a module is one flat parameter."""

from zerosim.systems.registry import Axis, System

NAME = "FSDP1"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    ends_with_its_model=True,
)
