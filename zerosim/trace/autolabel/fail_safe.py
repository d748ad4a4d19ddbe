"""Isolates the program and the trace from errors in label inference.

A label is a guess about foreign code, made while it runs. If the inference fails, the failing
object reports it once and stops: later events are unlabelled, but still recorded. zerosim's errors
for its user (a full disk) are not caught.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from zerosim.base.errors import ZerosimError, first_line
from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import say


class Fallible(Protocol):
    """An object whose methods may fail.

    Attributes:
        trouble: the error; "" if there was none.
    """

    trouble: str


S = TypeVar("S", bound=Fallible)
P = ParamSpec("P")
R = TypeVar("R")


def fail_safe(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | None]:
    """`method`, which returns None once any method of its object has failed."""

    @uncompiled
    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.trouble:
            return None
        try:
            return method(self, *args, **kwargs)
        except ZerosimError:
            raise
        except Exception as error:  # noqa: BLE001 - the program continues after any error
            self.trouble = f"{type(error).__name__}: {first_line(error)}"
            say(f"events from here on are not labelled ({self.trouble})")
            return None

    return call  # type: ignore[return-value]
