"""The options of the engine and of a run, validated in one place.

    choices     what can be chosen by name: dtypes, models, devices, tiers to offload to
    checks      how a value is refused
    option      what is said of an option, and what follows from it
    engine      what `zerosim.initialize` takes
    model       which model is meant: by a name, or by the path of a config.json
    run         what `zerosim run` adds
    light       what a light trace keeps
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
from zerosim.base.config.model import ModelFile, Shape
from zerosim.base.config.run import RunConfig
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
    "ModelFile",
    "ModelName",
    "Offload",
    "Preset",
    "RunConfig",
    "Shape",
    "choice",
]
