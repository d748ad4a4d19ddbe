"""The causes of a rank's stalls during data movement: collectives and copies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.budget import Occupancy, RankActivity, occupancy
from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.analysis.graph.kinds import PHASES
from zerosim.analysis.graph.table import Ints
from zerosim.schema.events import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """Exposed communication of one rank in one kind of collective, or in one kind of copy.

    Attributes:
        purpose: "gather parameters" ...; the operation if the purpose is unknown; "" if the cause
            of the wait is unknown.
        is_copying: bytes moved between tiers of the rank.
    """

    rank: int
    phase: Phase
    purpose: str
    num_waits: int
    exposed_ns: int
    is_copying: bool = False


def exposed(graph: EventGraph) -> tuple[Exposed, ...]:
    """The stalls by rank, the longest first, communication before copying.

    For each rank they sum to `Budget.exposed_ns` and to `Budget.copying_ns`.
    """
    return tuple(one for place in range(len(graph.trace.ranks)) for one in _of_rank(graph, place))


def _of_rank(graph: EventGraph, place: int) -> Iterator[Exposed]:
    pieces = occupancy(graph, place)
    for state in (RankActivity.EXPOSED, RankActivity.COPYING):
        yield from _in_state(graph, place, pieces, state)


def _in_state(
    graph: EventGraph, place: int, pieces: Occupancy, state: RankActivity
) -> Iterator[Exposed]:
    stands = pieces.state == state
    cuts = np.concatenate([pieces.start[:1], pieces.end])
    so_far = np.concatenate([[0], np.cumsum((pieces.end - pieces.start) * stands)])
    waits = np.flatnonzero((graph.place == place) & graph.is_kind(NodeKind.WAIT))
    if not len(waits) or not len(stands):
        return
    waits = waits[np.argsort(graph.start[waits], kind="stable")]
    begin, end = _one_after_another(graph.start[waits], graph.end[waits])
    # budgets split time at every start and end, but not where two waits touch
    time = _at(end, cuts, so_far, stands) - _at(begin, cuts, so_far, stands)
    total: Counter[tuple[Phase, str]] = Counter()
    count: Counter[tuple[Phase, str]] = Counter()
    for wait, ns in zip(waits.tolist(), time.tolist(), strict=True):
        if ns:
            key = PHASES[graph.phase[wait]], _purpose(graph, wait)
            total[key] += ns
            count[key] += 1
    for (phase, purpose), ns in total.most_common():
        yield Exposed(
            rank=pieces.rank,
            phase=phase,
            purpose=purpose,
            num_waits=count[phase, purpose],
            exposed_ns=ns,
            is_copying=state is RankActivity.COPYING,
        )


def _one_after_another(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The same time, with each moment in one wait only: the one that began first."""
    before = np.concatenate([start[:1], np.maximum.accumulate(end)[:-1]])[: len(start)]
    begin = np.maximum(start, before)
    return begin, np.maximum(begin, end)


def _at(times: Ints, cuts: Ints, so_far: Ints, stands: Ints) -> Ints:
    """The exposed communication before each time."""
    place = np.clip(np.searchsorted(cuts, times, side="right") - 1, 0, len(stands) - 1)
    inside = np.clip(times, cuts[0], cuts[-1]) - cuts[place]
    return so_far[place] + inside * stands[place]


def _purpose(graph: EventGraph, wait: int) -> str:
    event = graph.awaited_of(wait)
    if event is None:
        return ""
    return str(event.op if event.purpose is None else event.purpose)
