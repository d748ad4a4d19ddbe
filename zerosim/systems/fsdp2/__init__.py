"""FSDP2: `torch.distributed.fsdp.fully_shard`, each parameter by its rows; on a 2-D mesh HSDP."""

from zerosim.systems.registry import Axis, System

NAME = "FSDP2"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    ends_with_its_model=True,
)
