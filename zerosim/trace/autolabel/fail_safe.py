"""What keeps a mistake in finding labels from the program, and from the trace.

A label is a guess about someone else's code, made in the middle of it. If making one goes wrong,
whoever made it says so once and makes no more: what follows is unlabelled, and recorded all the
same. What zerosim says to its user (a full disk) passes through.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from zerosim.base.errors import ZerosimError, first_line
from zerosim.trace.eager import uncompiled
from zerosim.trace.guard import say


class Fallible(Protocol):
    """Who may go wrong.

    Attributes:
        trouble: what went wrong; "" while nothing has.
    """

    trouble: str


S = TypeVar("S", bound=Fallible)
P = ParamSpec("P")
R = TypeVar("R")


def fail_safe(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R | None]:
    """`method`, which returns None once anything of its object has gone wrong."""

    @uncompiled
    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.trouble:
            return None
        try:
            return method(self, *args, **kwargs)
        except ZerosimError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
            self.trouble = f"{type(error).__name__}: {first_line(error)}"
            say(f"what follows is not labelled ({self.trouble})")
            return None

    return call  # type: ignore[return-value]
