"""The calls and the matched collectives as arrays, with arrivals and the last rank to arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zerosim.analysis.graph.table import NONE, EventTable, Ints, Mask
from zerosim.record import Matching, Trace
from zerosim.schema.events import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedCollectives:
    """Matched collectives, by their position in `Matching.collectives`.

    Attributes:
        calls: rows of the table, over all ranks.
        of_call: for each of them, its collective.
        of_row: by row of the table, the collective of a call; `NONE` for others.
        first: the call of the first named rank.
        arrival: ns, the last start.
        last: the rank of that start; the lowest of several.
        end: ns, the last end.
        needs_all: whether no rank can end before all have arrived.
    """

    calls: Ints
    of_call: Ints
    of_row: Ints
    first: Ints
    arrival: Ints
    last: Ints
    end: Ints
    needs_all: Mask


def place_calls(trace: Trace, matching: Matching, table: EventTable) -> tuple[Ints, Ints]:
    """Rows of all matched calls, and the collective of each."""
    place_of = {rank.rank: place for place, rank in enumerate(trace.ranks)}
    collective, place, number = [], [], []
    for index, matched in enumerate(matching.collectives):
        for rank, event in matched.events.items():
            collective.append(index)
            place.append(place_of[rank])
            number.append(event.id)
    ids, places = np.array(number, np.int64), np.array(place, np.int64)
    calls = np.zeros(len(ids), np.int64)
    for one in range(len(trace.ranks)):
        here = places == one
        low, high = table.base[one], table.base[one + 1]
        calls[here] = np.searchsorted(table.id[low:high], ids[here]) + low
    return calls, np.array(collective, np.int64)


SYMMETRIC = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.ALL_TO_ALL, Op.BARRIER)
"""No rank ends these before every rank has begun."""


def describe_collectives(
    matching: Matching, table: EventTable, calls: Ints, of_call: Ints
) -> MatchedCollectives:
    """The arrivals of the ranks, on one clock; `calls` are grouped by collective."""
    count = len(matching.collectives)
    needs_all = np.array([one.op in SYMMETRIC for one in matching.collectives], np.bool_)
    of_row = np.full(len(table.id), NONE, np.int64)
    of_row[calls] = of_call
    begins = np.searchsorted(of_call, np.arange(count))
    start, end = table.start[calls], table.end[calls]
    if not count:
        empty = np.zeros(0, np.int64)
        return MatchedCollectives(
            calls=calls, of_call=of_call, of_row=of_row,
            first=empty, arrival=empty, last=empty, end=empty, needs_all=needs_all,
        )  # fmt: skip
    arrival = np.maximum.reduceat(start, begins)
    # of those that arrived last, the one with the lowest rank: all others get a higher number
    rank = table.rank[calls]
    above = int(rank.max()) + 1
    last = np.minimum.reduceat(np.where(start == arrival[of_call], rank, above), begins)
    return MatchedCollectives(
        calls=calls,
        of_call=of_call,
        of_row=of_row,
        first=calls[begins],
        arrival=arrival,
        last=last,
        end=np.maximum(np.maximum.reduceat(end, begins), arrival),
        needs_all=needs_all,
    )
