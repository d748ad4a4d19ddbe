"""The events of all ranks as arrays, one row an event, rank after rank in the order of ids.

A row's number is also the number of the event's node. Times are shifted to one clock later.
Imports numpy, zerosim's L0 and record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerosim.events import Event, Kind, Op
from zerosim.graph.kinds import NODE_CODES, PHASE_CODES, NodeKind
from zerosim.record import RankTrace, Trace
from zerosim.tiers import Link, link_of_copy

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]

NONE = -1
"""In an array, in place of what there is not."""
LINKS = (Link.BUS, Link.STORAGE)
"""Links of copies; each has a thread of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTable:
    """Events as arrays.

    Attributes:
        base: by position in `trace.ranks`, the row of its first event; one more than ranks.
        place: position in `trace.ranks`.
        rank: global rank.
        kind: codes of `NodeKind`.
        id: of the event on its rank.
        parent: row of the collective that a message belongs to, or of the collective or the copy
            that a wait waits for; or `NONE`.
        phase: codes of `Phase`.
        issue: ns; start: ns, the issue if it never began; end: ns, that of the wait for it if it
            was not seen, the start if there is none.
        ended: False where no end was recorded.
        peer: global rank at the other end of a message; `NONE` for others.
        hop, shard: of a message; `NONE` if unknown.
        payload: bytes.
        link: of a copy, position in `LINKS` of the link that it takes; `NONE` for others.
    """

    base: Ints
    place: Ints
    rank: Ints
    kind: Codes
    id: Ints
    parent: Ints
    iteration: Ints
    phase: Codes
    issue: Ints
    start: Ints
    end: Ints
    ended: Mask
    peer: Ints
    hop: Ints
    shard: Ints
    payload: Ints
    link: Ints

    def rows(self, kind: NodeKind) -> Ints:
        """The rows of one kind."""
        return np.flatnonzero(self.kind == NODE_CODES[kind])


def make_table(trace: Trace) -> EventTable:
    """Read the columns that the graph needs out of the events; linear in their number."""
    columns = [_columns(place, rank) for place, rank in enumerate(trace.ranks)]
    counts = [len(rank.events) for rank in trace.ranks]
    base = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    joined = {name: np.concatenate([one[name] for one in columns]) for name in columns[0]}
    parent = joined.pop("parent")
    for place in range(len(counts)):
        part = slice(base[place], base[place + 1])
        parent[part] = _rows_of(joined["id"][part], parent[part], int(base[place]))
    kind = joined["kind"]
    call = NODE_CODES[NodeKind.CALL]
    kind[(kind == call) & (parent != NONE)] = NODE_CODES[NodeKind.MARK]
    joined["start"] = np.where(joined["start"] == NONE, joined["issue"], joined["start"])
    ended = joined["end"] != NONE
    joined["end"] = np.maximum(joined["end"], joined["start"])
    _end_with_waits(kind, parent, ended, joined["end"])
    return EventTable(**joined, base=base, parent=parent, ended=ended)


def _end_with_waits(kind: Codes, parent: Ints, ended: Mask, end: Ints) -> None:
    """A call whose end was not seen, as on a GPU, was over when the wait for it was."""
    waits = np.flatnonzero((kind == NODE_CODES[NodeKind.WAIT]) & (parent != NONE))
    waits = waits[~ended[parent[waits]]]
    np.maximum.at(end, parent[waits], end[waits])


def _rows_of(ids: Ints, wanted: Ints, base: int) -> Ints:
    """Rows of the events with the wanted ids, which ascend; `NONE` where there is none."""
    if not len(ids):
        return wanted
    found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((wanted != NONE) & (ids[found] == wanted), found + base, NONE)


def _columns(place: int, rank: RankTrace) -> dict[str, Any]:
    events = rank.events
    is_message = [event.kind is Kind.TRANSFER for event in events]
    count = len(events)

    def column(values: Iterable[int], dtype: type = np.int64) -> Any:
        return np.fromiter(values, dtype, count)

    def optional(name: str) -> Any:
        values = map(attrgetter(name), events)
        return column(NONE if value is None else value for value in values)

    # a member of an enum is one object, and its address is hashed faster than its name
    kinds = {id(kind): NODE_CODES[node] for kind, node in _NODES.items()}
    phases = {id(phase): code for phase, code in PHASE_CODES.items()}
    send, receive = NODE_CODES[NodeKind.SEND], NODE_CODES[NodeKind.RECEIVE]
    return {
        "place": np.full(count, place, np.int64),
        "rank": np.full(count, rank.rank, np.int64),
        "kind": column(
            (
                (send if event.op is Op.SEND else receive) if message else kinds[id(event.kind)]
                for event, message in zip(events, is_message, strict=True)
            ),
            np.int8,
        ),
        "id": column(event.id for event in events),
        "parent": optional("parent"),
        "iteration": column(event.iteration for event in events),
        "phase": column((phases[id(event.phase)] for event in events), np.int8),
        "issue": column(event.issue_ns for event in events),
        "start": optional("start_ns"),
        "end": optional("end_ns"),
        "peer": column(
            event.peers[0] if message and event.peers else NONE
            for event, message in zip(events, is_message, strict=True)
        ),
        "hop": optional("hop"),
        "shard": optional("shard"),
        "payload": column(event.payload_bytes for event in events),
        "link": column(map(copy_link, events)),
    }


def copy_link(event: Event) -> int:
    """Position in `LINKS` of the link that a copy takes; `NONE` for what is no copy."""
    if event.kind is not Kind.COPY or event.origin is None or event.target is None:
        return NONE
    return LINKS.index(link_of_copy(event.origin, event.target))


_NODES = {
    Kind.COMPUTE: NodeKind.COMPUTE,
    Kind.COLLECTIVE: NodeKind.CALL,
    Kind.WAIT: NodeKind.WAIT,
    Kind.COPY: NodeKind.COPY,
    Kind.MARK: NodeKind.MARK,
    Kind.TRANSFER: NodeKind.SEND,
}
