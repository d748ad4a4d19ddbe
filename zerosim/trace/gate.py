"""The gate: where a thread of a rank stops before an event, if somebody holds the ranks.

Whoever writes an event down asks first, `if gate.is_closed: gate.stop(...)`; open, that is one load
and one test. Closed, the keeper decides what becomes of the thread: it stands until it is let
through, or goes on. Nothing of the event has happened then: no row is written, no operator called.

The keeper is `trace.keeper`, which somebody's debugger talks to; without one the gate stays open.
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
"""Who waits for a held rank waits so long: as milliseconds it fits into 32 bits."""
_REMEMBERED = 3
"""Iterations whose events are counted: an update may go on beside the next forward."""


class Gatekeeper(Protocol):
    """Who decides what becomes of a thread at a closed gate."""

    def arrives(self, thread: int, stand: Stand) -> None:
        """A thread stands before an event; returns when it may go on."""
        ...


class _Opened(threading.local):
    """What a thread is in.

    Attributes:
        stand: the collective of our own, at which closing of the gate.
        unit: whose computation gathers first; computes: that, as soon as it was called.
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
        """Ask this keeper before each event from now on."""
        self._keeper = keeper
        self._closings += 1
        self.is_closed = True

    def open(self) -> None:
        """Ask nobody any more."""
        self.is_closed = False
        self._keeper = None
        self._met.clear()

    def stop(self, stand: Stand) -> None:
        """Stand before an event until the keeper lets this thread through."""
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

        It stands before that as Replay has it: once they are there, before whatever comes next, or
        where `stop_computing` says that the unit's own code begins.
        """
        self._opened.unit, self._opened.computes = unit, None

    def stop_computing(self) -> None:
        """Stand before the computation that gathered first; nothing if this thread did already."""
        keeper, stand = self._keeper, self._opened.computes
        self._opened.unit, self._opened.computes = "", None
        if keeper is not None and stand is not None:
            keeper.arrives(threading.get_ident(), self._counted(stand))

    def stop_before_hop(self, hop: int, rank: int, way: int) -> None:
        """Likewise before a round of the ring that this thread is in; the first belongs to it.

        Chunks of one round are posted one after another: it is stopped before the first of them.

        Args:
            way: in a chain, 1 if this rank sends to the next one, -1 if it receives; 0 in a ring,
                where all do both.
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
        """Whether a thread of this rank has stood before this, or stands there, as far as known."""
        met = self._met.get(stand.iteration)
        return met is not None and met[_alike(stand)] > stand.place

    def _counted(self, stand: Stand) -> Stand:
        """What is met for the n-th time on a rank belongs with the n-th of the others."""
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
    """Whether a thread stands before a gather of this unit's parameters, or a hop of one."""
    return stand.purpose is Purpose.GATHER_PARAMETERS and stand.unit == unit


def _alike(stand: Stand) -> tuple[object, ...]:
    """What stands have in common that are counted together."""
    what = (stand.kind, stand.phase, stand.micro_step, stand.unit, stand.purpose)
    return (*what, stand.op, stand.group, stand.peer)


gate = Gate()
"""Of this process."""
