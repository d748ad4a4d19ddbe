"""The engine: ZeRO stages 0 to 3, each readable in one sitting.

Owns units and their flat memory, buckets, the four stages, the optimizer on shards, loss scaling,
and the step. Imports torch, zerosim's L0, collectives and trace.labels. Never theory, record or
verify: what it does is proved by others.
"""

from zerosim.engine.door import add_config_arguments, init_distributed, initialize
from zerosim.engine.engine import Engine
from zerosim.engine.familiar import DeepSpeedEngine

__all__ = [
    "DeepSpeedEngine",
    "Engine",
    "add_config_arguments",
    "init_distributed",
    "initialize",
]
