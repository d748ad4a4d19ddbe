"""Isolates a program that is traced from outside from errors of the tracer.

Inside `with zerosim.trace(folder)`, an error is raised as usual: the author wants to see it. A
program that is traced from outside must run as if it were not: there, the first error ends the
trace, and the program continues.
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
    """The state of this process, which has one trace at a time."""

    on_trouble: Callable[[Exception], None] | None = None
    is_tripped = False
    say: Callable[[str], None] = staticmethod(_to_stderr)


def arm(
    on_trouble: Callable[[Exception], None] | None, say: Callable[[str], None] = _to_stderr
) -> None:
    """From now on, pass the first error of guarded code to `on_trouble`; None raises errors.

    Args:
        say: receives the tracer's messages; by default they go to standard error.
    """
    _Guarding.on_trouble = on_trouble
    _Guarding.is_tripped = False
    _Guarding.say = say


def say(what: str) -> None:
    """Report a message of the tracer to its user."""
    _Guarding.say(what)


def trip() -> None:
    """From now on, guarded functions do nothing."""
    _Guarding.is_tripped = True


def guarded(function: Callable[P, R]) -> Callable[P, R | None]:
    """`function`, with errors that end the trace if they must not reach the program.

    It then returns None, which its caller must take as nothing to do.
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
