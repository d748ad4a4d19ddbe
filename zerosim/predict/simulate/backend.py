"""Collectives that are over at once, and carry what is known.

PyTorch's fake backend copies what a rank gives to where it is received, which fake tensors have no
memory for. In its place each `c10d` operator answers with the tensors that it was given to fill,
and with a work that is done; what has values, such as sizes and names, gets those that the others
say (`post`). The tracer sees each call before that, as ever.
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
        post: carries what is known; None if nothing is.
    """
    library = torch.library.Library("c10d", "IMPL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch says that something is registered already
            for name in c10d_operators():
                base, _, overload = name.removeprefix("c10d::").partition(".")
                operator = getattr(getattr(torch.ops.c10d, base), overload or "default")
                answer = _answering(operator) if post is None else _carrying(operator, base, post)
                library.impl(operator, answer, "CPU", allow_override=True)
        yield
    finally:
        library._destroy()


def _answering(operator: Any) -> Callable[..., Any]:
    """What an operator returns: nothing, a work, or what it fills (its first argument) and one."""
    num_returned = len(operator._schema.returns)

    def answer(*args: Any) -> Any:
        if num_returned == 0:
            return None
        work = FakeWork().boxed()
        return work if num_returned == 1 else (args[0], work)

    return answer


def _carrying(operator: Any, name: str, post: Post) -> Callable[..., Any]:
    """Likewise, for programs: C++ asks their works what they brought."""
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
