"""What can be asked of the engine and of a run, checked in one place.

    choices     what can be chosen by name: dtypes, models, devices, tiers to offload to
    checks      how a value is refused
    option      what is said of an option, and what follows from it
    engine      what `zerosim.initialize` takes
    run         what `zerosim run` adds
    systems     the ZeRO family by name

An option is declared once, in `engine` or `run`.
"""

from zerosim.config.choices import (
    STAGE_NAMES,
    STAGES,
    CollectivesKind,
    DeviceKind,
    DType,
    Implementation,
    ModelName,
    Offload,
    choice,
)
from zerosim.config.engine import EngineConfig
from zerosim.config.run import RunConfig
from zerosim.config.systems import SYSTEMS, Preset

__all__ = [
    "STAGES",
    "STAGE_NAMES",
    "SYSTEMS",
    "CollectivesKind",
    "DType",
    "DeviceKind",
    "EngineConfig",
    "Implementation",
    "ModelName",
    "Offload",
    "Preset",
    "RunConfig",
    "choice",
]
