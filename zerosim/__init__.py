"""zerosim: run ZeRO, record its communication, and verify it against theory.

    run = zerosim.run(stage=3, ranks=2)     # train, trace, load
    run = zerosim.load("traces/mine")       # load a trace; does not need PyTorch
    run = zerosim.load(zerosim.EXAMPLE)     # the ZeRO-3 trace shipped with zerosim
    run.traffic(by="phase")                 # a table; docs/api.md lists all of them
    run.verify()                            # compare theory, trace and kernel counters
    run.replay()                            # the player, in a notebook cell

    with zerosim.trace("traces/mine"):      # in your own program, on each rank
        ...
    engine = zerosim.initialize(model, zerosim.EngineConfig(stage=3))

Names that need torch are imported on first use.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.version import VERSION as __version__

if TYPE_CHECKING:
    from zerosim.cli.start import run
    from zerosim.trace.session import trace
    from zerosim.train.deepspeed.distributed import init_distributed
    from zerosim.train.deepspeed.engine import DeepSpeedEngine
    from zerosim.train.deepspeed.initialize import add_config_arguments, initialize
    from zerosim.train.engine import Engine
    from zerosim.view.reading import Run, load

__all__ = [
    "EXAMPLE",
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

EXAMPLE = Path(__file__).parent / "lessons" / "traces" / "ring" / "stage-3"
"""The trace of a small ZeRO-3 run on four ranks: `zerosim.load(zerosim.EXAMPLE)` loads it."""

_MODULES = {
    "DeepSpeedEngine": "zerosim.train.deepspeed.engine",
    "Engine": "zerosim.train.engine",
    "add_config_arguments": "zerosim.train.deepspeed.initialize",
    "init_distributed": "zerosim.train.deepspeed.distributed",
    "initialize": "zerosim.train.deepspeed.initialize",
    "Run": "zerosim.view.reading",
    "load": "zerosim.view.reading",
    "run": "zerosim.cli.start",
}


_DEEPSPEED = "zerosim.systems.deepspeed.explanation"
"""The module behind `zerosim.deepspeed`, with its function `explain`."""
_PUBLIC_PACKAGES = {"deepspeed": _DEEPSPEED, "trace": "zerosim.trace"}


class _Elsewhere(ModuleType):
    """The module that `import zerosim.deepspeed` returns."""

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        return getattr(import_module(_DEEPSPEED), name)


sys.modules.setdefault("zerosim.deepspeed", _Elsewhere("zerosim.deepspeed"))

_DEEPSPEEDS = {
    "zero": "build the model whole, initialize() shards it; engine.full_parameters() has it whole",
    "checkpointing": "give activation_checkpointing, or call torch.utils.checkpoint in the model",
    "PipelineModule": "give a model that one rank can compute",
    "init_inference": "zerosim trains only",
}
"""DeepSpeed names that zerosim does not have, and the alternative to each."""


def __dir__() -> list[str]:
    """Names for `help` and completion; without torch, only those that do not need it."""
    from importlib.util import find_spec

    has_torch = find_spec("torch") is not None
    needing = {*__all__} - {
        "EXAMPLE",
        "EngineConfig",
        "Run",
        "RunConfig",
        "__version__",
        "load",
        "run",
    }
    return sorted({*globals(), *__all__} - (set() if has_torch else needing))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PUBLIC_PACKAGES:
        return import_module(_PUBLIC_PACKAGES[name])
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    instead = f": {_DEEPSPEEDS[name]}" if name in _DEEPSPEEDS else ""
    raise AttributeError(f"module 'zerosim' has no attribute {name!r}{instead}")
