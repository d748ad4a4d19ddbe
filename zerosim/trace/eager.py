"""Excludes the tracer from compilation.

While a program's compiled code runs, `torch.compile` inspects every new Python frame, and compiles
it if it can. The functions that record a trace must never be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._C._dynamo import eval_frame

from zerosim.trace.guard import guarded

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT, _SKIP = eval_frame._FrameAction.DEFAULT, eval_frame._FrameAction.SKIP


def uncompiled(function: F) -> F:
    """`function`, excluded from compilation with everything that it calls."""
    return _run_as_it_is(function, _SKIP)


def transparent(function: F) -> F:
    """`function`, excluded from compilation, while its callees, the program's code, may be
    compiled.
    """
    return _run_as_it_is(function, _DEFAULT)


def _run_as_it_is(function: F, inside: Any) -> F:
    strategy = eval_frame._FrameExecStrategy(_SKIP, inside)
    eval_frame.set_code_exec_strategy(function.__code__, strategy)
    return function


@guarded
def _guarded() -> None:
    """All guarded functions share one wrapper's code object."""


uncompiled(_guarded)
