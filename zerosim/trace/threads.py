"""Which thread computes, and so may look at the program's tensors.

Other threads come by as well: a backend's, which says that a call is over; an engine's, which
carries out collectives; a program's own, beside its training. Reading a parameter's gradient there,
or letting go of the last reference to a tensor, would race with the thread that computes, which
changes both without Python's lock while it is in PyTorch. So they write down times and numbers, and
whatever touches a tensor is left to the thread that computes, at its next event.

The thread that computes is the one that began the trace, and then the one that last entered a phase
of training. While it is in backward, it waits for autograd's own threads (on a GPU), which compute
in its place.
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
    """Of this process, which has one training at a time."""

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
    """This thread does inside what another one would do, which does not compute: of a dry run."""
    before, _Computing.is_beside = _Computing.is_beside, True
    try:
        yield
    finally:
        _Computing.is_beside = before


def computing() -> int:
    """The thread that computes, by its number."""
    return _Computing.computing


def is_computing() -> bool:
    """Whether this is the thread that computes, or one of autograd's that does so for it."""
    if _Computing.is_beside:
        return False
    if get_ident() == _Computing.computing:
        return True
    in_graph: int = torch._C._current_graph_task_id()
    return in_graph != -1 and labels.position().phase is Phase.BACKWARD
