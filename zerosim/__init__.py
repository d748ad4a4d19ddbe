"""zerosim: run ZeRO for real, record what it sends, prove it.

    run = zerosim.run(stage=3, ranks=2)     # train, record, read
    run = zerosim.load("traces/mine")       # read what was recorded; without PyTorch, too
    run.traffic(by="phase")                 # a table; docs/api.md has all of them
    run.verify()                            # theory, trace and kernel against each other
    run.replay()                            # the player, in a notebook's cell

    with zerosim.trace("traces/mine"):      # in a program of your own, on each rank
        ...
    engine = zerosim.initialize(model, zerosim.EngineConfig(stage=3))

Names that need torch are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zerosim.config import EngineConfig, RunConfig
from zerosim.version import VERSION as __version__

if TYPE_CHECKING:
    from zerosim.cli.start import run
    from zerosim.deepspeed.distributed import init_distributed
    from zerosim.deepspeed.engine import DeepSpeedEngine
    from zerosim.deepspeed.initialize import add_config_arguments, initialize
    from zerosim.engine import Engine
    from zerosim.reading import Run, load
    from zerosim.trace.session import trace

__all__ = [
    "DeepSpeedEngine",
    "Engine",
    "EngineConfig",
    "Run",
    "RunConfig",
    "__version__",
    "add_config_arguments",
    "init_distributed",
    "initialize",
    "load",
    "run",
    "trace",
]

_MODULES = {
    "DeepSpeedEngine": "zerosim.deepspeed.engine",
    "Engine": "zerosim.engine",
    "add_config_arguments": "zerosim.deepspeed.initialize",
    "init_distributed": "zerosim.deepspeed.distributed",
    "initialize": "zerosim.deepspeed.initialize",
    "Run": "zerosim.reading",
    "load": "zerosim.reading",
    "run": "zerosim.cli.start",
}


_DEEPSPEEDS = {
    "zero": "build the model whole, initialize() divides it; engine.full_parameters() has it whole",
    "checkpointing": "give activation_checkpointing, or call torch.utils.checkpoint in the model",
    "PipelineModule": "give a model that one rank can compute",
    "init_inference": "zerosim trains only",
}
"""What a loop written for DeepSpeed may look for in vain, and what to do instead."""


def __dir__() -> list[str]:
    """What `help` and completion show; without torch, the names that need none."""
    from importlib.util import find_spec

    has_torch = find_spec("torch") is not None
    needing = {*__all__} - {"EngineConfig", "Run", "RunConfig", "__version__", "load", "run"}
    return sorted({*globals(), *__all__} - (set() if has_torch else needing))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "trace":
        return import_module("zerosim.trace")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    instead = f": {_DEEPSPEEDS[name]}" if name in _DEEPSPEEDS else ""
    raise AttributeError(f"module 'zerosim' has no attribute {name!r}{instead}")
