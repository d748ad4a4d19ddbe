"""Recording what PyTorch was asked to move, inside anyone's training program.

Owns the interception of c10d operators (`dispatch`), the labels that a program pushes (`labels`),
the kernel's counters (`wire`), the clock, and the recorder of one rank. Imports torch, the
standard library and zerosim's L0, nothing else: it must work where only torch is installed.

The package itself can be called: `with zerosim.trace(folder): ...` is `session.trace`.
"""

import sys
import types
from typing import Any

from zerosim.trace.recorder import Recorder
from zerosim.trace.session import trace

__all__ = ["Recorder", "trace"]


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return trace(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
