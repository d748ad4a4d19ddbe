"""Comparison of checksums between ranks: helpers for findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.record import Trace
from zerosim.schema.events import Checksum, Event, Held, Phase
from zerosim.verify.diagnosis.findings import Finding

ORDER = {Phase.FORWARD: 0, Phase.BACKWARD: 1, Phase.UPDATE: 2, Phase.OUTSIDE: 3, Phase.SETUP: -1}
"""The order of phases in an iteration."""
Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding and its position in the training run, so that the first one can be chosen."""

    at: Key
    finding: Finding


def at_call(event: Event, number: int) -> Key:
    """The position of a call, among others of its phase by its id."""
    return (event.iteration, ORDER[event.phase], 0, number)


def by_event(trace: Trace, held: Held) -> dict[tuple[int, int], Checksum]:
    """The checksums of calls and messages, by rank and event."""
    return {
        (rank.rank, one.event): one
        for rank in trace.ranks
        for one in rank.checksums
        if one.held is held and one.event is not None
    }


def minority(values: Mapping[int, object]) -> tuple[tuple[int, ...], bool]:
    """The ranks that differ from the majority, and True; without one, all ranks and False."""
    sides: dict[object, list[int]] = {}
    for rank, value in values.items():
        sides.setdefault(value, []).append(rank)
    ordered = sorted(sides.values(), key=len, reverse=True)
    if len(ordered) > 1 and len(ordered[0]) == len(ordered[1]):
        return tuple(values), False
    return tuple(sorted(rank for side in ordered[1:] for rank in side)), True
