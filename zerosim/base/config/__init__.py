"""The options of the engine and of a run, validated in one place.

    choices     closed sets of names: dtypes, models, devices, tiers to offload to
    checks      the refusal of invalid values
    option      the declaration of an option
    engine      the options of `zerosim.initialize`
    model       the choice of a model: by a name, or by the path of a config.json
    run         the additional options of `zerosim run`
    light       the extent of a light trace
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
