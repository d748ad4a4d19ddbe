"""Recording what PyTorch was asked to move, inside anyone's training program.

It imports torch, the standard library and zerosim's L0, nothing else: it must work where only
torch is installed. The package itself can be called: `with zerosim.trace(folder): ...`.

In the order in which to read it:

    labels, sink        what a program says of itself: where it is, for which unit, why
    intercept           each call of a c10d operator, and each wait; `operators` reads the arguments
    calls               what becomes of a call: messages, collectives, who waits for them
                        (`posted_messages`, `unended`)
    writer              events as they begin and end, groups; `rowfile` is the file, `segments`
                        that of a light trace
    recorder            all of it for one rank
    wire, interfaces    what the kernel counted on connections, and on the host's interfaces
    ledger              what is alive: `holdings` says what for, `alive` sums it up, `saved` knows
                        what autograd keeps, `allocations` what PyTorch's allocator counts,
                        `address_maps` where it lies; `reachable` asks what Python code still holds
    session             begins and ends a trace; `process` writes header and manifest, `bootstrap`
                        begins one in a program that never asked
    guard, threads      what keeps the tracing's errors from the program, and other threads from its
                        tensors; `eager` keeps the compiler from the tracer
    labeler, autolabel  what is found out of a program that says nothing
    extent              what of a process is recorded
    clock, source, blocks   the time, the line that asked, the units that a model has by default
"""

import sys
import types
from typing import Any

from zerosim.base.config import Light
from zerosim.trace.recorder import Recorder
from zerosim.trace.session import trace

__all__ = ["Light", "Recorder", "trace"]


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return trace(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
