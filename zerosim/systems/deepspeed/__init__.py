"""DeepSpeed: `deepspeed.initialize`, its ZeRO stages; `explanation` tells of it before it runs.

Options of its `Strategy`: `stage` and the values of its configuration that decide what it sends, by
their own names. Bundles are its buckets or modules as far as it says.
"""

from zerosim.systems.registry import Axis, System

NAME = "DeepSpeed"
SYSTEM = System(
    name=NAME,
    package=__name__,
    axis=Axis.DATA,
    has_whole_model=True,
    remembers=True,
)
