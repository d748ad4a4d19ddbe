"""Collectives that complete at once, and exchange known values.

PyTorch's fake backend copies a rank's input to its output, which fake tensors have no memory for.
Instead, each `c10d` operator returns its output tensors and a completed work; tensors with values,
such as sizes and names, get those of the other ranks (`post`). The tracer sees each call before
that, as usual.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _distributed_c10d
from torch._C._distributed_c10d import FakeWork, Work

from zerosim.predict.simulate.post import Post
from zerosim.trace.operators import c10d_operators


@contextmanager
def sending_nothing(post: Post | None = None) -> Iterator[None]:
    """No collective of this process moves anything inside.

    Args:
        post: exchanges known values; None if there are none.
    """
    library = torch.library.Library("c10d", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns that a kernel is registered already
            for name in c10d_operators():
                base, _, overload = name.removeprefix("c10d::").partition(".")
                operator = getattr(getattr(torch.ops.c10d, base), overload or "default")
                answer = _answering(operator) if post is None else _carrying(operator, base, post)
                library.impl(operator, answer, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()


def _answering(operator: Any) -> Callable[..., Any]:
    """The return value of an operator: nothing, a work, or its output (its first argument) and a
    work.
    """
    num_returned = len(operator._schema.returns)

    def answer(*args: Any) -> Any:
        if num_returned == 0:
            return None
        work = FakeWork().boxed()
        return work if num_returned == 1 else (args[0], work)

    return answer


def _carrying(operator: Any, name: str, post: Post) -> Callable[..., Any]:
    """The same for programs, in which C++ code queries works for results."""
    num_returned = len(operator._schema.returns)

    def answer(*args: Any) -> Any:
        post.carry(name, args)
        if num_returned == 0:
            return None
        work = _done(args[0]).boxed()
        return work if num_returned == 1 else (args[0], work)

    return answer


def _done(filled: Any) -> Work:
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(filled)
    work_of: Callable[[Any], Work] = vars(_distributed_c10d)["_create_work_from_future"]
    return work_of(future)
