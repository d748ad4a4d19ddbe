"""A dry run, as the tracer and the engine see it: what the process itself does not show.

In a dry run (`zerosim.predict.simulate`) one process does what one of N ranks would do, with fake
tensors and PyTorch's fake backend. Whose backend that stands for, what the device would have
allocated and what a computation had to do is known to whoever made the run, and asked for here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from zerosim.schema.events import OperatorWork
from zerosim.schema.manifest import Alike
from zerosim.trace.clock import Clock

FAKE_BACKEND = "fake"
"""What PyTorch calls the backend that sends nothing."""


class DryRun(Protocol):
    """What is known of a dry run."""

    @property
    def backend(self) -> str:
        """The backend that PyTorch's fake one stands for: "gloo", "nccl"."""
        ...

    @property
    def machine(self) -> str:
        """The machine that its times are predicted for."""
        ...

    @property
    def alike(self) -> tuple[Alike, ...]:
        """Which ranks' files stand for others."""
        ...

    @property
    def clock(self) -> Clock:
        """Where a recorder reads the time."""
        ...

    def begin_work(self) -> None:
        """A computation begins: count what it asks of operators from here on."""
        ...

    def take_work(self) -> tuple[OperatorWork, ...]:
        """What it asked since it began; what comes now is no computation's."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """What another thread would do, and none of what this one computes."""
        ...


class _CurrentDryRun:
    run: DryRun | None = None


@contextmanager
def installed_as(run: DryRun) -> Iterator[None]:
    """This process does a dry run inside."""
    assert _CurrentDryRun.run is None, "one dry run at a time"
    _CurrentDryRun.run = run
    try:
        yield
    finally:
        _CurrentDryRun.run = None


def installed() -> DryRun | None:
    """The dry run that this process does; None if it runs for real."""
    return _CurrentDryRun.run


def aside() -> AbstractContextManager[None]:
    """What is done inside is no part of the computation that is open: a dry run counts it apart."""
    run = _CurrentDryRun.run
    return nullcontext() if run is None else run.aside()
