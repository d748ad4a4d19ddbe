"""How the program of a trace divides its training: as it says itself, or as its calls look.

Imports zerosim's L0, record, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter

from zerosim.events import Purpose
from zerosim.memory import Role
from zerosim.record import RankTrace, Trace
from zerosim.strategies import Bundle, Parameter, Strategy, System
from zerosim.verify.attribution import calls_by_iteration
from zerosim.verify.measure import STEP_PHASES


def strategies_of(trace: Trace) -> dict[int, tuple[Strategy, ...]]:
    """How the program divides its training, by rank; empty if the trace does not tell.

    A program that says nothing and calls collectives in its steps is taken as hand-written, with
    as many bytes of parameters as its memory holds.
    """
    if any(rank.strategies for rank in trace.ranks):
        return {rank.rank: rank.strategies for rank in trace.ranks}
    found = {rank.rank: _taken_as_hand_written(rank) for rank in trace.ranks}
    return found if all(found.values()) else {}


def _taken_as_hand_written(rank: RankTrace) -> tuple[Strategy, ...]:
    parts: dict[str, int] = {}
    largest = 0
    for sample in rank.memory_samples:
        for holding in sample.changes:
            if holding.role is Role.PARAMETERS:
                parts[holding.unit] = holding.bytes
        largest = max(largest, sum(parts.values()))
    groups = Counter[str]()
    for events in calls_by_iteration(rank).values():
        for event in events:
            if event.phase in STEP_PHASES and event.purpose is Purpose.UNLABELLED:
                groups[event.group] += event.payload_bytes
    if not largest or not groups or groups.most_common(1)[0][0] not in rank.groups:
        return ()
    # in bytes: which dtype they have is not recorded
    whole = Parameter(name="parameters", shape=(largest,), dtype="uint8")
    bundle = Bundle(name="model", parameters=(whole,), options={"counts_bytes": True})
    return (
        Strategy(
            system=System.HAND_WRITTEN,
            name="program",
            ranks=rank.groups[groups.most_common(1)[0][0]].ranks,
            bundles=(bundle,),
        ),
    )
