"""The gate: the point before an event at which a debugger can pause a thread of a rank.

Code that records an event first checks `if gate.is_closed: gate.stop(...)`; an open gate costs one
load and one test. At a closed one the keeper decides: the thread pauses until released, or
continues. At that point nothing of the event has happened: no row was written, no operator called.

The keeper is `trace.keeper`, which talks to a debugger; without one the gate stays open.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from zerosim.schema.events import Kind, Purpose
from zerosim.schema.stands import Stand

PATIENCE = timedelta(days=20)
"""Timeout while a rank is paused: in milliseconds, it fits into 32 bits."""
_REMEMBERED = 3
"""Number of iterations with counted events: an update may overlap with the next forward."""


class Gatekeeper(Protocol):
    """Decides which threads pause at a closed gate."""

    def arrives(self, thread: int, stand: Stand) -> None:
        """A thread has reached an event; returns when the thread may continue."""
        ...


class _Opened(threading.local):
    """The context of a thread.

    Attributes:
        stand, closing: the open collective of our own, and how often the gate was closed before it.
        unit: the unit that gathers before computing; computes: its computation, once called.
    """

    stand: Stand | None = None
    closing = 0
    unit = ""
    computes: Stand | None = None


class Gate:
    """The gate of this process.

    Attributes:
        is_closed: whether `stop` is to be called before an event.
    """

    __slots__ = ("_closings", "_keeper", "_lock", "_met", "_opened", "is_closed")

    def __init__(self) -> None:
        self.is_closed = False
        self._keeper: Gatekeeper | None = None
        self._closings = 0
        self._lock = threading.Lock()
        self._met: dict[int, Counter[tuple[object, ...]]] = {}
        self._opened = _Opened()

    def close(self, keeper: Gatekeeper) -> None:
        """Consult this keeper before each event from now on."""
        self._keeper = keeper
        self._closings += 1
        self.is_closed = True

    def open(self) -> None:
        """Remove the keeper."""
        self.is_closed = False
        self._keeper = None
        self._met.clear()

    def stop(self, stand: Stand) -> None:
        """Pause before an event until the keeper releases this thread."""
        keeper, opened = self._keeper, self._opened
        if keeper is None:
            return
        if stand.kind is Kind.COMPUTE and stand.unit == opened.unit:
            opened.unit, opened.computes = "", stand
            return
        if opened.computes is not None and not _gathers(stand, opened.computes.unit):
            self.stop_computing()
        if stand.kind is Kind.COLLECTIVE:
            opened.stand, opened.closing = stand, self._closings
        keeper.arrives(threading.get_ident(), self._counted(stand))

    def gathers_first(self, unit: str) -> None:
        """This thread is about to compute a unit that gathers its parameters from within its call.

        As in Replay, the thread pauses after the gather: before the next event, or where
        `stop_computing` marks the beginning of the unit's own code.
        """
        self._opened.unit, self._opened.computes = unit, None

    def stop_computing(self) -> None:
        """Pause before the computation that gathered first; no effect if it has already."""
        keeper, stand = self._keeper, self._opened.computes
        self._opened.unit, self._opened.computes = "", None
        if keeper is not None and stand is not None:
            keeper.arrives(threading.get_ident(), self._counted(stand))

    def stop_before_hop(self, hop: int, rank: int, way: int) -> None:
        """Pause before a round of this thread's ring; the first round belongs to the collective.

        Chunks of one round are posted one after another; the thread pauses before the first of
        them.

        Args:
            way: in a chain, 1 if this rank sends to the next one, -1 if it receives; 0 in a ring,
                where each rank does both.
        """
        keeper, opened = self._keeper, self._opened.stand
        if keeper is None or opened is None or self._opened.closing != self._closings:
            return
        if hop <= (opened.hop or 0):
            return
        stand = replace(opened, kind=Kind.TRANSFER, hop=hop)
        if way and rank in stand.ranks:
            other = stand.ranks[(stand.ranks.index(rank) + way) % len(stand.ranks)]
            stand = replace(stand, ranks=(rank, other)[::way])
        self._opened.stand = replace(opened, hop=hop)
        keeper.arrives(threading.get_ident(), stand)

    def has_met(self, stand: Stand) -> bool:
        """Whether a thread of this rank has passed this event, or pauses before it, as far as
        known.
        """
        met = self._met.get(stand.iteration)
        return met is not None and met[_alike(stand)] > stand.place

    def _counted(self, stand: Stand) -> Stand:
        """Number the event: its n-th occurrence on a rank corresponds to the n-th on the others."""
        key = _alike(stand)
        with self._lock:
            met = self._met.get(stand.iteration)
            if met is None:
                met = self._met[stand.iteration] = Counter()
                self._met.pop(stand.iteration - _REMEMBERED, None)
            place = met[key]
            met[key] += 1
        return replace(stand, place=place)


def _gathers(stand: Stand, unit: str) -> bool:
    """Whether a thread pauses before a gather of this unit's parameters, or a hop of one."""
    return stand.purpose is Purpose.GATHER_PARAMETERS and stand.unit == unit


def _alike(stand: Stand) -> tuple[object, ...]:
    """The key of events that are counted together."""
    what = (stand.kind, stand.phase, stand.micro_step, stand.unit, stand.purpose)
    return (*what, stand.op, stand.group, stand.peer)


gate = Gate()
"""The gate of this process."""
