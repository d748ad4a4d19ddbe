"""The events of all ranks as arrays, one row per event, rank after rank in order of ids.

A row's number is also the number of the event's node. Times are shifted to one clock later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zerosim.analysis.graph.kinds import NODE_CODES, PHASE_CODES, NodeKind
from zerosim.base.tiers import Link, link_of_copy
from zerosim.record import RankTrace, Trace
from zerosim.record.eventrows import Columns
from zerosim.schema.events import Event, Kind, Op

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]

NONE = -1
"""Marks a missing value in an array."""
LINKS = (Link.BUS, Link.STORAGE)
"""Links of copies; each has a thread of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTable:
    """Events as arrays.

    Attributes:
        base: by index in `trace.ranks`, the row of its first event; one more than ranks.
        place: index in `trace.ranks`.
        rank: global rank.
        kind: codes of `NodeKind`.
        id: id of the event on its rank.
        parent: row of the collective of a message, or of the collective or copy that is the cause
            of a wait; or `NONE`.
        phase: codes of `Phase`.
        issue: ns; start: ns, the issue if it never began; end: ns, that of the wait for it if not
            observed, the start if there is none.
        ended: False if no end was recorded.
        peer: global rank at the other end of a message; `NONE` for others.
        hop, shard: those of a message; `NONE` if unknown.
        payload: bytes.
        link: index in `LINKS` of a copy's link; `NONE` for others.
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
    counts = [len(rank.events) for rank in trace.ranks]
    base = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
    columns = [_columns(place, rank, int(base[place])) for place, rank in enumerate(trace.ranks)]
    joined = {name: np.concatenate([one.pop(name) for one in columns]) for name in [*columns[0]]}
    kind, parent = joined["kind"], joined["parent"]
    call = NODE_CODES[NodeKind.CALL]
    kind[(kind == call) & (parent != NONE)] = NODE_CODES[NodeKind.MARK]
    joined["start"] = np.where(joined["start"] == NONE, joined["issue"], joined["start"])
    ended = joined["end"] != NONE
    joined["end"] = np.maximum(joined["end"], joined["start"])
    _end_with_waits(kind, parent, ended, joined["end"])
    return EventTable(**joined, base=base, ended=ended)


def _end_with_waits(kind: Codes, parent: Ints, ended: Mask, end: Ints) -> None:
    """A call without an observed end, as on a GPU, ended with the wait for it."""
    waits = np.flatnonzero((kind == NODE_CODES[NodeKind.WAIT]) & (parent != NONE))
    waits = waits[~ended[parent[waits]]]
    np.maximum.at(end, parent[waits], end[waits])


def _rows_of(ids: Ints, wanted: Ints, base: int) -> Ints:
    """Rows of the events with the given ids, which ascend; `NONE` for missing ones."""
    if not len(ids):
        return wanted
    found = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where((wanted != NONE) & (ids[found] == wanted), found + base, NONE)


def _columns(place: int, rank: RankTrace, base: int) -> dict[str, Any]:
    """The columns of one rank, whose first row is `base`."""
    messages, others = rank.events.columns()
    of_messages, of_others = _read(messages), _read(others)
    of_others["iteration"] = _integers(others, "iteration")
    of_others["phase"] = _codes(others, "phase", PHASE_CODES)
    of_others["link"] = np.fromiter(map(copy_link, others.rows), np.int64)
    is_message, count = np.zeros(len(rank.events), np.bool_), len(rank.events)
    is_message[messages.places] = True
    columns: dict[str, Any] = {}
    for name, values in of_others.items():
        column = columns[name] = np.full(count, NONE, values.dtype)
        column[~is_message] = values
        column[is_message] = of_messages.get(name, NONE)
    calls = _rows_of(columns["id"], _integers(messages, "call.id"), 0)
    for name in ("iteration", "phase"):
        columns[name][is_message] = columns[name][calls]
    return columns | {
        "parent": _rows_of(columns["id"], columns["parent"], base),
        "place": np.full(count, place, np.int64),
        "rank": np.full(count, rank.rank, np.int64),
    }


def _read(some: Columns) -> dict[str, Any]:
    """Fields that are read from messages and other events alike."""
    kind = _codes(some, "kind", {kind: NODE_CODES[node] for kind, node in _NODES.items()})
    send = Op.SEND
    is_sent = np.fromiter((op is send for op in some.read("op")), np.bool_)
    is_message = kind == NODE_CODES[NodeKind.SEND]
    kind[is_message & ~is_sent] = NODE_CODES[NodeKind.RECEIVE]
    peer = np.fromiter((among[0] if among else NONE for among in some.read("peers")), np.int64)
    peer[~is_message] = NONE
    return {
        "kind": kind,
        "id": _integers(some, "id"),
        "parent": _integers(some, "parent"),
        "issue": _integers(some, "issue_ns"),
        "start": _integers(some, "start_ns"),
        "end": _integers(some, "end_ns"),
        "peer": peer,
        "hop": _integers(some, "hop"),
        "shard": _integers(some, "shard"),
        "payload": _integers(some, "payload_bytes"),
    }


def _integers(some: Columns, name: str) -> Ints:
    try:
        return np.fromiter(some.read(name), np.int64, len(some.rows))
    except TypeError:
        values = (NONE if value is None else value for value in some.read(name))
        return np.fromiter(values, np.int64, len(some.rows))


def _codes(some: Columns, name: str, known: Mapping[Any, int]) -> Codes:
    # an enum member is a single object, and its address is hashed faster than its name
    of_address = {id(value): code for value, code in known.items()}
    codes = map(of_address.__getitem__, map(id, some.read(name)))
    return np.fromiter(codes, np.int8, len(some.rows))


def copy_link(event: Event) -> int:
    """Index in `LINKS` of a copy's link; `NONE` for other events."""
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
