"""What keeps an error of the tracing from a program that never asked to be traced.

Inside `with zerosim.trace(folder)` an error is raised, as anywhere: who wrote the block wants to
know. A program that is traced from outside is to run as if it were not: there the first error ends
the trace, and the program goes on.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def _to_stderr(what: str) -> None:
    sys.stderr.write(f"zerosim: {what}\n")


class _Guarding:
    """Of this process, which has one trace at a time."""

    on_trouble: Callable[[Exception], None] | None = None
    is_tripped = False
    say: Callable[[str], None] = staticmethod(_to_stderr)


def arm(
    on_trouble: Callable[[Exception], None] | None, say: Callable[[str], None] = _to_stderr
) -> None:
    """From now on hand the first error of anything guarded to `on_trouble`; None raises them.

    Args:
        say: takes what is to be said of the tracing, where standard error is the program's alone.
    """
    _Guarding.on_trouble = on_trouble
    _Guarding.is_tripped = False
    _Guarding.say = say


def say(what: str) -> None:
    """Say something of the tracing to whoever traces."""
    _Guarding.say(what)


def trip() -> None:
    """From now on nothing that is guarded does anything."""
    _Guarding.is_tripped = True


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """`function`, whose errors end the trace where they must not reach the program.

    It then returns None, which must mean to its caller that there is nothing to do.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
        if _Guarding.is_tripped:
            return None
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if _Guarding.on_trouble is None:
                raise
            trip()
            _Guarding.on_trouble(error)
            return None

    return call
