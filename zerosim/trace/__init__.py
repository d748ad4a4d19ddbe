"""Records the collectives and memory of any PyTorch training program.

It imports only torch, the standard library and zerosim's L0: it must work where only torch is
installed. The package is callable: `with zerosim.trace(folder): ...`.

In reading order:

    labels, sink        the program's position, unit and purpose, as it declares them
    intercept           each call of a c10d operator, and each wait; `operators` reads the arguments
    calls               intercepted calls become messages, collectives and waits (`posted_messages`,
                        `unended`)
    writer              start and end of events, groups; `rowfile` is the file, `segments` that of a
                        light trace
    recorder            the recorder of one rank, from these parts
    wire, interfaces    the kernel's counters of connections and of the host's network interfaces
    ledger              live tensors: `holdings` knows their roles, `alive` sums them up, `saved`
                        tracks tensors saved by autograd, `allocations` the counters of PyTorch's
                        allocator, `address_maps` addresses; `reachable` finds tensors that Python
                        code still references
    session             begins and ends a trace; `process` writes header and manifest, `bootstrap`
                        begins a trace in a program without one
    guard, threads      isolate the program from errors of the tracer, and its tensors from other
                        threads; `eager` keeps the compiler away from the tracer
    labeler, autolabel  labels inferred for a program without labels
    extent              the scope of the recording
    clock, source, blocks   the time, the source line of a call, the default units of a model
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
