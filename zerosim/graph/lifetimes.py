"""Which tensor goes from whom to whom: what was gathered, computed, reduced, updated, and by whom.

Read from the labels alone, in the order in which one rank's events began. A trace without units
has no such edges, and needs none: program order and matches hold it together.
Imports zerosim's L0, record and its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerosim.events import Event, Kind, Phase, Purpose
from zerosim.graph.kinds import Reason
from zerosim.manifest import Manifest


class Life(NamedTuple):
    """A tensor goes from one event of a rank to another, both by position among its events.

    Attributes:
        ready_ns: when it is there, on the rank's own clock.
    """

    source: int
    target: int
    reason: Reason
    ready_ns: int


Made = tuple[int, int]
"""A position, and the time at which what it made is there."""


@dataclass(slots=True)
class _Latest:
    """What made a unit's tensors most recently, by unit; reductions by bucket and iteration."""

    initial: dict[str, Made] = field(default_factory=dict)
    gather: dict[str, Made] = field(default_factory=dict)
    forward: dict[str, Made] = field(default_factory=dict)
    backward: dict[str, Made] = field(default_factory=dict)
    reductions: dict[tuple[str, int], list[Made]] = field(default_factory=dict)
    update: dict[str, Made] = field(default_factory=dict)


class Lifetimes:
    """Finds the tensors' ways through one trace."""

    def __init__(self, manifest: Manifest) -> None:
        """Learn which unit is in which bucket."""
        self._units_in: Mapping[str, tuple[str, ...]] = {
            bucket.name: tuple(dict.fromkeys(segment.unit for segment in bucket.segments))
            for bucket in manifest.buckets
        }
        self._buckets_of: dict[str, list[str]] = {}
        for bucket, units in self._units_in.items():
            for unit in units:
                self._buckets_of.setdefault(unit, []).append(bucket)

    def follow(self, events: tuple[Event, ...]) -> Iterator[Life]:
        """The ways of one rank's tensors; linear in the number of events."""
        latest = _Latest()
        for place, event in enumerate(events):
            kind = event.kind
            if kind is Kind.TRANSFER or not event.unit:
                continue
            if kind is Kind.COMPUTE:
                yield from self._used_by_compute(latest, place, event)
            elif kind is Kind.COLLECTIVE and event.parent is None:
                yield from self._used_by_call(latest, place, event)

    def _used_by_compute(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        unit, begin = event.unit, _begin(event)
        if event.phase is Phase.UPDATE:
            for bucket in self._buckets_of.get(unit, [unit]):
                for reduced in latest.reductions.get((bucket, event.iteration), ()):
                    yield from _way(reduced, place, Reason.REDUCED, begin)
            made = latest.update
        else:
            gathered, updated = latest.gather.get(unit), latest.update.get(unit)
            if updated is not None and (gathered is None or updated[0] > gathered[0]):
                yield from _way(updated, place, Reason.UPDATED_IN_PLACE, begin)
            elif gathered is not None:
                yield from _way(gathered, place, Reason.GATHERED, begin)
            else:
                yield from _way(latest.initial.get(unit), place, Reason.INITIAL, begin)
            made = latest.forward
            if event.phase is Phase.BACKWARD:
                yield from _way(latest.forward.get(unit), place, Reason.SAVED, begin)
                made = latest.backward
        if event.end_ns is not None:
            made[unit] = (place, event.end_ns)

    def _used_by_call(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        unit = event.unit
        made = None if event.end_ns is None else (place, event.end_ns)
        if event.purpose is Purpose.REDUCE_GRADIENTS:
            for one in self._units_in.get(unit, (unit,)):
                yield from _way(latest.backward.get(one), place, Reason.GRADIENTS, event.issue_ns)
            if made is not None:
                latest.reductions.setdefault((unit, event.iteration), []).append(made)
        elif event.purpose is Purpose.GATHER_PARAMETERS:
            yield from _way(latest.update.get(unit), place, Reason.UPDATED, event.issue_ns)
            if made is not None:
                latest.gather[unit] = made
        elif event.purpose is Purpose.BROADCAST_STATE and made is not None:
            latest.initial[unit] = made


def _begin(event: Event) -> int:
    return event.issue_ns if event.start_ns is None else event.start_ns


def _way(made: Made | None, place: int, reason: Reason, used_ns: int) -> Iterator[Life]:
    """One edge, unless what was made came too late to be what was used."""
    if made is not None and made[1] <= used_ns:
        yield Life(made[0], place, reason, made[1])
