"""The interface of a dry run for tracer and engine: facts that the process itself does not reveal.

In a dry run (`zerosim.predict.simulate`), one process acts as one of N ranks, with fake tensors and
PyTorch's fake backend. The dry run provides the simulated backend, the allocations of the device,
and the work of a computation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

from zerosim.schema.events import OperatorWork
from zerosim.schema.manifest import Alike
from zerosim.trace.clock import Clock

FAKE_BACKEND = "fake"
"""PyTorch's name for the backend that sends nothing."""


class DryRun(Protocol):
    """Properties of a dry run."""

    @property
    def backend(self) -> str:
        """The backend that the fake one stands for: "gloo", "nccl"."""
        ...

    @property
    def machine(self) -> str:
        """The machine that its times are predicted for."""
        ...

    @property
    def alike(self) -> tuple[Alike, ...]:
        """The ranks that each rank's file represents."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of a recorder."""
        ...

    def begin_work(self) -> None:
        """A computation begins: count its operators from here on."""
        ...

    def take_work(self) -> tuple[OperatorWork, ...]:
        """Its operators so far; later ones do not belong to a computation."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """Exclude the work inside from the current computation: it is another thread's."""
        ...


class _CurrentDryRun:
    run: DryRun | None = None


@contextmanager
def installed_as(run: DryRun) -> Iterator[None]:
    """The code inside is a dry run."""
    assert _CurrentDryRun.run is None, "one dry run at a time"
    _CurrentDryRun.run = run
    try:
        yield
    finally:
        _CurrentDryRun.run = None


def installed() -> DryRun | None:
    """The current dry run; None in a real run."""
    return _CurrentDryRun.run


def aside() -> AbstractContextManager[None]:
    """Exclude the work inside from the open computation: a dry run counts it separately."""
    run = _CurrentDryRun.run
    return nullcontext() if run is None else run.aside()
