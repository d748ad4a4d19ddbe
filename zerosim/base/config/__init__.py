"""The options of the engine and of a run, validated in one place.

    choices     values chosen by name: dtypes, models, devices, tiers to offload to
    checks      validation of values
    option      the declaration of an option, and its uses
    engine      the options of `zerosim.initialize`
    run         the further options of `zerosim run`
    light       the contents of a light trace
    systems     the ZeRO family by name

An option is declared once, in `engine`, `run` or `light`.
"""

from zerosim.base.config.choices import (
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
from zerosim.base.config.engine import EngineConfig
from zerosim.base.config.light import Light
from zerosim.base.config.run import RunConfig, Shape
from zerosim.base.config.systems import SYSTEMS, Preset

__all__ = [
    "STAGES",
    "STAGE_NAMES",
    "SYSTEMS",
    "CollectivesKind",
    "DType",
    "DeviceKind",
    "EngineConfig",
    "Implementation",
    "Light",
    "ModelName",
    "Offload",
    "Preset",
    "RunConfig",
    "Shape",
    "choice",
]
