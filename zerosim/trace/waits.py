"""Who waits for a native call, and how long: `Work.wait`, as Python code calls it.

A wait inside PyTorch's C++ (DDP's reducer) is not seen. Imports torch.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch.distributed as dist

from zerosim.errors import first_line
from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import guarded


class Observer(Protocol):
    """Who is told about waits."""

    def waits(self, work: Any) -> int | None:
        """A thread is about to wait for a Work; returns a token for `waited`, or None."""
        ...

    def waited(self, token: int, error: str) -> None:
        """It waited until now; `error` is "" if that succeeded."""
        ...


class Waits:
    """Passes each wait by, from `install` to `remove`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._original: Any = None

    def install(self) -> None:
        """Begin to see waits."""
        original = dist.Work.wait
        waits, waited = guarded(self._observer.waits), guarded(self._observer.waited)

        def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
            token = waits(work)
            error = ""
            try:
                return original(work, *args, **kwargs)
            except BaseException as raised:
                error = first_line(raised)
                raise
            finally:
                if token is not None:
                    waited(token, error)

        self._original = original
        dist.Work.wait = uncompiled(wait)  # type: ignore[method-assign, assignment]

    def remove(self) -> None:
        """Stop; waits take the way they took before `install`."""
        if self._original is not None:
            dist.Work.wait = self._original  # type: ignore[method-assign]
            self._original = None
