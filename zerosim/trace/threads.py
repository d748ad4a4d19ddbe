"""The thread that computes, which alone may access the program's tensors.

Other threads call the tracer as well: a backend's, which reports the end of a call; an engine's,
which executes collectives; a program's own, beside its training. Reading a parameter's gradient
there, or dropping the last reference to a tensor, would race with the computing thread, which
changes both without the GIL while it is in PyTorch. These threads therefore only record times and
numbers; all access to tensors is left to the computing thread, at its next event.

The computing thread is the one that began the trace, and then the last one that entered a phase of
training. While it is in backward, it waits for autograd's own threads (on a GPU), which compute in
its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

import torch

from zerosim.schema.events import Phase
from zerosim.trace import labels

_OF_TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


class _Computing:
    """The state of this process, which has one training run at a time."""

    computing = 0
    is_beside = False


def began() -> None:
    """This thread began a trace."""
    _Computing.computing = get_ident()


def entered(phase: Phase) -> None:
    """This thread moved the process to a phase."""
    if phase in _OF_TRAINING:
        _Computing.computing = get_ident()


@contextmanager
def beside() -> Iterator[None]:
    """Inside, this thread acts as a non-computing one: for a dry run."""
    before, _Computing.is_beside = _Computing.is_beside, True
    try:
        yield
    finally:
        _Computing.is_beside = before


def computing() -> int:
    """The id of the computing thread."""
    return _Computing.computing


def is_computing() -> bool:
    """Whether this is the computing thread, or one of autograd's on its behalf."""
    if _Computing.is_beside:
        return False
    if get_ident() == _Computing.computing:
        return True
    in_graph: int = torch._C._current_graph_task_id()
    return in_graph != -1 and labels.position().phase is Phase.BACKWARD
