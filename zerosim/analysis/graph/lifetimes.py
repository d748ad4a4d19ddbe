"""Data flow of tensors between events: gathered, computed, reduced, updated, copied.

Derived from the labels alone, in the order in which one rank's events began. A trace without units
has no such edges, and needs none: program order and matches connect it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from zerosim.analysis.graph.kinds import Reason
from zerosim.base.tiers import Tier
from zerosim.record import Events
from zerosim.schema.events import Event, Kind, Phase, Purpose
from zerosim.schema.manifest import Manifest


class Life(NamedTuple):
    """A tensor passes from one event of a rank to another, both by index among its events.

    Attributes:
        ready_ns: the time of its availability, on the rank's own clock.
    """

    source: int
    target: int
    reason: Reason
    ready_ns: int


Made = tuple[int, int]
"""An index, and the time at which its result is available."""


@dataclass(slots=True)
class _Latest:
    """The last producers of a unit's tensors, by unit; reductions by bucket and iteration.

    Attributes:
        offloaded: gradients that left the device, by unit or bucket and iteration.
        copied: by purpose and unit, the last copy, and the tier that it led to.
        saved: checkpoints that left the device, by unit and micro-step.
    """

    initial: dict[str, Made] = field(default_factory=dict)
    gather: dict[str, Made] = field(default_factory=dict)
    forward: dict[str, Made] = field(default_factory=dict)
    backward: dict[str, Made] = field(default_factory=dict)
    reductions: dict[tuple[str, int], list[Made]] = field(default_factory=dict)
    update: dict[str, Made] = field(default_factory=dict)
    offloaded: dict[tuple[str, int], list[Made]] = field(default_factory=dict)
    copied: dict[tuple[Purpose, str], tuple[Made, Tier]] = field(default_factory=dict)
    saved: dict[tuple[str, int], Made] = field(default_factory=dict)

    def copy(self, purpose: Purpose, unit: str) -> Made | None:
        """The last copy of a unit for a purpose."""
        found = self.copied.get((purpose, unit))
        return None if found is None else found[0]


class Lifetimes:
    """Finds the data flow of tensors in one trace."""

    def __init__(self, manifest: Manifest) -> None:
        """Record the buckets of units."""
        self._units_in: Mapping[str, tuple[str, ...]] = {
            bucket.name: tuple(dict.fromkeys(segment.unit for segment in bucket.segments))
            for bucket in manifest.buckets
        }
        self._buckets_of: dict[str, list[str]] = {}
        for bucket, units in self._units_in.items():
            for unit in units:
                self._buckets_of.setdefault(unit, []).append(bucket)

    def follow(self, events: Events) -> Iterator[Life]:
        """The data flow of one rank's tensors; linear in the number of events."""
        latest = _Latest()
        for place, event in events.of_kind(Kind.COMPUTE, Kind.COLLECTIVE, Kind.COPY):
            kind = event.kind
            if not event.unit:
                continue
            if kind is Kind.COMPUTE:
                yield from self._used_by_compute(latest, place, event)
            elif kind is Kind.COLLECTIVE:
                if event.parent is None:
                    yield from self._used_by_call(latest, place, event)
            else:
                yield from self._used_by_copy(latest, place, event)

    def _used_by_compute(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        unit, begin = event.unit, _begin(event)
        if event.phase is Phase.UPDATE:
            yield from self._used_by_update(latest, place, event)
            made = latest.update
        else:
            yield from _newest(
                (latest.gather.get(unit), Reason.GATHERED),
                (latest.update.get(unit), Reason.UPDATED_IN_PLACE),
                (latest.copy(Purpose.RETURN_PARAMETERS, unit), Reason.RETURNED_IN_PLACE),
                (latest.copy(Purpose.FETCH_PARAMETERS, unit), Reason.FETCHED_ALONE),
                otherwise=(latest.initial.get(unit), Reason.INITIAL),
                place=place,
                used_ns=begin,
            )
            made = latest.forward
            if event.phase is Phase.BACKWARD:
                yield from _way(latest.forward.get(unit), place, Reason.SAVED, begin)
                back = latest.copy(Purpose.FETCH_ACTIVATIONS, unit)
                yield from _way(back, place, Reason.CHECKPOINT_BACK, begin)
                made = latest.backward
        if event.end_ns is not None:
            made[unit] = (place, event.end_ns)

    def _used_by_update(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        """Gradients, and the optimizer states if they are on a disk."""
        unit, begin = event.unit, _begin(event)
        names = [unit, *self._buckets_of.get(unit, [])]
        # a delayed update applies gradients that left the device in the previous iteration
        for iteration in (event.iteration, event.iteration - 1):
            offloaded = [
                life
                for name in names
                for one in latest.offloaded.get((name, iteration), ())
                for life in _way(one, place, Reason.OFFLOADED, begin)
            ]
            if offloaded:
                break
        yield from offloaded
        if not offloaded:
            for bucket in self._buckets_of.get(unit, [unit]):
                for reduced in latest.reductions.get((bucket, event.iteration), ()):
                    yield from _way(reduced, place, Reason.REDUCED, begin)
        yield from _way(latest.copy(Purpose.FETCH_STATES, unit), place, Reason.STATES, begin)

    def _used_by_call(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        unit = event.unit
        made = None if event.end_ns is None else (place, event.end_ns)
        if event.purpose is Purpose.REDUCE_GRADIENTS:
            for one in self._units_in.get(unit, (unit,)):
                yield from _way(latest.backward.get(one), place, Reason.GRADIENTS, event.issue_ns)
            if made is not None:
                latest.reductions.setdefault((unit, event.iteration), []).append(made)
        elif event.purpose is Purpose.GATHER_PARAMETERS:
            yield from _newest(
                (latest.update.get(unit), Reason.UPDATED),
                (latest.copy(Purpose.RETURN_PARAMETERS, unit), Reason.RETURNED),
                (latest.copy(Purpose.FETCH_PARAMETERS, unit), Reason.FETCHED),
                place=place,
                used_ns=_begin(event),
            )
            if made is not None:
                latest.gather[unit] = made
        elif event.purpose is Purpose.GATHER_ACTIVATIONS:
            back = latest.copy(Purpose.FETCH_ACTIVATIONS, unit)
            yield from _way(back, place, Reason.MOVED_ON, _begin(event))
        elif event.purpose is Purpose.BROADCAST_STATE and made is not None:
            latest.initial[unit] = made

    def _used_by_copy(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        unit, purpose, begin = event.unit, event.purpose, _begin(event)
        if purpose is None or event.target is None:
            return
        before = latest.copied.get((purpose, unit))
        if before is not None and before[1] is event.origin is not Tier.DEVICE:
            yield from _way(before[0], place, Reason.MOVED_ON, begin)
        elif purpose is Purpose.OFFLOAD_GRADIENTS:
            yield from self._leaving_gradients(latest, place, event)
        elif purpose is Purpose.FETCH_ACTIVATIONS:
            yield from _way(latest.saved.get((unit, event.micro_step)), place, Reason.STORED, begin)
        elif purpose in _STORED_BY:
            yield from _newest(
                (latest.copy(_STORED_BY[purpose], unit), Reason.STORED),
                (latest.update.get(unit), Reason.UPDATED_FETCHED),
                place=place,
                used_ns=begin,
            )
        else:
            yield from _newest(
                (latest.update.get(unit), Reason.UPDATED_LEAVES),
                (latest.copy(Purpose.RETURN_PARAMETERS, unit), Reason.MOVED_ON),
                (latest.gather.get(unit), Reason.UPDATED_LEAVES),
                place=place,
                used_ns=begin,
            )
        if event.end_ns is None:
            return
        made = (place, event.end_ns)
        latest.copied[purpose, unit] = made, event.target
        if purpose is Purpose.OFFLOAD_GRADIENTS:
            latest.offloaded.setdefault((unit, event.iteration), []).append(made)
        elif purpose is Purpose.OFFLOAD_ACTIVATIONS:
            latest.saved[unit, event.micro_step] = made

    def _leaving_gradients(self, latest: _Latest, place: int, event: Event) -> Iterator[Life]:
        """The last reduction of each bucket of a unit; one rank alone reduces nothing."""
        unit, begin = event.unit, _begin(event)
        found = False
        for bucket in dict.fromkeys((unit, *self._buckets_of.get(unit, ()))):
            for reduced in latest.reductions.get((bucket, event.iteration), ())[-1:]:
                for life in _way(reduced, place, Reason.REDUCED_LEAVES, begin):
                    found = True
                    yield life
        if not found:
            yield from _way(latest.backward.get(unit), place, Reason.REDUCED_LEAVES, begin)


_STORED_BY = {
    Purpose.FETCH_PARAMETERS: Purpose.STORE_PARAMETERS,
    Purpose.FETCH_STATES: Purpose.STORE_STATES,
}


def _newest(
    *made: tuple[Made | None, Reason],
    otherwise: tuple[Made | None, Reason] = (None, Reason.INITIAL),
    place: int,
    used_ns: int,
) -> Iterator[Life]:
    """The edge from the most recent of several producers, unless its result came too late."""
    known = [(one, reason) for one, reason in made if one is not None]
    newest, reason = max(known, key=lambda one: one[0][0], default=otherwise)
    yield from _way(newest, place, reason, used_ns)


def _begin(event: Event) -> int:
    return event.issue_ns if event.start_ns is None else event.start_ns


def _way(made: Made | None, place: int, reason: Reason, used_ns: int) -> Iterator[Life]:
    """One edge, unless the result came too late to be the one used."""
    if made is not None and made[1] <= used_ns:
        yield Life(made[0], place, reason, made[1])
