"""DeepSpeed: `deepspeed.initialize`, its ZeRO stages; `explanation` tells of it before it runs."""

from zerosim.systems.registry import Axis, System

NAME = "DeepSpeed"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    remembers=True,
)
