"""DeepSpeed: `deepspeed.initialize`, its ZeRO stages; `explanation` predicts it before a run.

Options of its `Strategy`: `stage`, and the keys of its configuration that affect its traffic, under
their own names. Bundles are its buckets or modules, where it exposes them.
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
