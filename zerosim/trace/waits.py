"""Who waits for a native call, and how long.

    Work.wait       as Python code calls it
    wait_tensor     of functional collectives, which DTensor calls: for a tensor, not for a work

A wait inside PyTorch's C++ (DDP's reducer) is not seen. Imports torch.
"""

from __future__ import annotations

import functools
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C import DispatchKey

from zerosim.errors import first_line
from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import guarded


class Observer(Protocol):
    """Who is told about waits."""

    def waits(self, work: Any) -> int | None:
        """A thread is about to wait for a Work; returns a token for `waited`, or None."""
        ...

    def waits_for_tensor(self, tensor: torch.Tensor) -> int | None:
        """A thread is about to wait for what a tensor is the result of; likewise."""
        ...

    def waited(self, token: int, error: str) -> None:
        """It waited until now; `error` is "" if that succeeded."""
        ...


class Waits:
    """Passes each wait by, from `install` to `remove`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._original: Any = None
        self._library: torch.library.Library | None = None

    def install(self) -> None:
        """Begin to see waits."""
        self._original = original = dist.Work.wait
        operator = torch.ops._c10d_functional.wait_tensor.default
        below = torch._C._dispatch_keyset_full_after(DispatchKey.BackendSelect)
        waits, waits_for_tensor = self._observer.waits, self._observer.waits_for_tensor

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            return self._passed(waits, work, lambda: original(work, *args, **kwargs))

        def wait_tensor(keys: Any, tensor: torch.Tensor) -> Any:
            go_on = functools.partial(operator.redispatch, keys & below, tensor)
            return self._passed(waits_for_tensor, tensor, go_on)

        dist.Work.wait = uncompiled(wait)  # type: ignore[method-assign, assignment]
        self._library = torch.library.Library("_c10d_functional", "IMPL")
        self._library.impl("wait_tensor", wait_tensor, "BackendSelect", with_keyset=True)

    def remove(self) -> None:
        """Stop; waits take the way they took before `install`."""
        if self._original is not None:
            dist.Work.wait = self._original  # type: ignore[method-assign]
            self._original = None
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _passed(self, begins: Any, awaited: Any, go_on: Any) -> Any:
        """Wait by `go_on`, and say how long it took."""
        token = guarded(begins)(awaited)
        error = ""
        try:
            return go_on()
        except BaseException as raised:
            error = first_line(raised)
            raise
        finally:
            if token is not None:
                guarded(self._observer.waited)(token, error)
