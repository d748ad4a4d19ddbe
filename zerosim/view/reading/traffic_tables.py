"""Calls, traffic and copies of ranks, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from zerosim.analysis.traffic import (
    TracedCall,
    copies,
    goes_over_sockets,
    split,
    sums,
    total,
    total_copied,
    traced_calls,
)
from zerosim.base.errors import ConfigError
from zerosim.base.tables import Cell, Column, Evidence, Table
from zerosim.base.tiers import Link
from zerosim.record import PeerBytes, Peers, RankTrace, Trace, match_sockets, phase_wire
from zerosim.schema.events import WHOLE, Event
from zerosim.view.reading.selection import Selection, names_of, purpose_of

TRAFFIC_KEYS: dict[str, Callable[[TracedCall], Cell]] = {
    "rank": lambda call: call.rank,
    "iteration": lambda call: call.event.iteration,
    "micro_step": lambda call: call.event.micro_step,
    "phase": lambda call: call.event.phase.value,
    "purpose": lambda call: call.purpose.value,
    "op": lambda call: str(call.event.op),
    "unit": lambda call: call.event.unit,
    "group": lambda call: call.event.group,
    "algorithm": lambda call: call.event.algorithm,
    "link": lambda call: call.shares[0].link,
}
_COPY_KEYS: dict[str, Callable[[int, Link, Event], Cell]] = {
    "rank": lambda rank, _, __: rank,
    "iteration": lambda _, __, copy: copy.iteration,
    "phase": lambda _, __, copy: copy.phase.value,
    "purpose": lambda _, __, copy: purpose_of(copy).value,
    "unit": lambda _, __, copy: copy.unit,
    "link": lambda _, link, __: link.value,
    "origin": lambda _, __, copy: str(copy.origin),
    "target": lambda _, __, copy: str(copy.target),
}
_WIRE_KEYS = ("rank", "iteration", "micro_step", "phase", "peer")
_AS_CALLED = ("calls", "payload_bytes", "volume_elements", "volume_bytes")
_BY_CALL_ONLY = "the kernel counts concurrent calls together: run.wire() has its counts by phase"
_MESSAGES_UNKNOWN = "the trace does not record which messages of a backend's own calls leave a node"


def keys_of(by: object, known: Iterable[str]) -> tuple[str, ...]:
    """The columns to group by.

    Raises:
        ConfigError: there is no such column.
    """
    given = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, Iterable) else (by,)
    allowed = tuple(known)
    for key in given:
        if key not in allowed:
            raise ConfigError(f"by is {key!r}: expected one of {', '.join(allowed)}, or several")
    return given


def traffic(
    calls: Sequence[TracedCall], chosen: Selection, by: object, link: object, title: str
) -> Table:
    """Traffic of calls, one row per group.

    Args:
        calls: of the whole run.
        link: the link class; None for all.
    """
    keys = keys_of(by, TRAFFIC_KEYS)
    ranks = {rank.rank for rank in chosen.ranks}
    counted: Iterable[TracedCall] = (
        call for call in calls if call.rank in ranks and chosen.has(call.event)
    )
    is_split = link is not None or "link" in keys
    if is_split:
        counted = (part for call in counted for part in split(call))
    if link is not None:
        links = names_of(Link, link, "link")
        counted = (part for part in counted if part.shares[0].link in links)
    found = list(counted)
    grouped = sums(found, lambda call: tuple(TRAFFIC_KEYS[key](call) for key in keys))
    whole = total(found)
    asked = Evidence.COMPUTED if whole.is_computed else Evidence.TRACED
    rows = [
        (
            *key,
            row.calls,
            *(
                (None,) * 3
                if is_split or row.is_unsized
                else (row.payload_bytes, row.volume_elements, row.volume_bytes)
            ),
            row.sent_bytes,
            row.received_bytes,
            row.wire_sent_bytes,
            row.wire_received_bytes,
        )
        for key, row in grouped.items()
    ]
    notes = [whole.unknown] * bool(whole.unknown)
    if whole.wire_sent_bytes is None:
        notes.append(_BY_CALL_ONLY)
    if is_split and any(part.shares[0].link is None for part in found):
        notes.append(_MESSAGES_UNKNOWN)
    return Table(
        title,
        (
            *(Column(key) for key in keys),
            *(Column(name, Evidence.TRACED) for name in _AS_CALLED),
            Column("sent_bytes", asked),
            Column("received_bytes", asked),
            Column("wire_sent_bytes", Evidence.MEASURED),
            Column("wire_received_bytes", Evidence.MEASURED),
        ),
        tuple(rows),
        tuple(notes),
    )


def copied(chosen: Selection, by: object, link: object, title: str) -> Table:
    """Copies of ranks between their tiers."""
    keys = keys_of(by, _COPY_KEYS)
    if chosen.ops is not None:
        raise ConfigError("a copy has no operation: expected rank=, phase=, purpose= or unit=")
    links = tuple(Link) if link is None else names_of(Link, link, "link")
    found: dict[tuple[Cell, ...], list[Event]] = defaultdict(list)
    for rank in chosen.ranks:
        for over, copy in copies(rank):
            if over in links and chosen.has(copy):
                key = tuple(_COPY_KEYS[name](rank.rank, over, copy) for name in keys)
                found[key].append(copy)
    rows = [(key, total_copied(some)) for key, some in found.items()]
    return Table(
        title,
        (
            *(Column(key) for key in keys),
            Column("copies", Evidence.TRACED),
            Column("payload_bytes", Evidence.TRACED),
            Column("kernel_bytes", Evidence.MEASURED),
        ),
        tuple((*key, row.copies, row.payload_bytes, row.kernel_bytes) for key, row in rows),
    )


def wire(chosen: Selection, by: object, title: str) -> Table:
    """The kernel's count on the connections to other ranks, for all calls.

    Its samples are at phase borders, so it has no purpose, operation or unit.
    """
    keys = keys_of(by, _WIRE_KEYS)
    peers = match_sockets(chosen.trace)
    found: dict[tuple[Cell, ...], list[PeerBytes]] = defaultdict(list)
    lost: set[tuple[Cell, ...]] = set()
    unmeasured = _why_no_wire(chosen.trace, chosen.ranks, peers)
    notes = list(unmeasured.values())
    is_part = bool(notes) and "rank" not in keys
    for rank in chosen.ranks:
        closed = False
        for piece in phase_wire(rank, peers) if rank.rank not in unmeasured else ():
            if piece.phase not in chosen.phases or not _is_in(chosen, piece.iteration):
                continue
            closed |= bool(piece.lost_sockets)
            for peer, moved in piece.peers.items():
                place: dict[str, Cell] = {
                    "rank": rank.rank,
                    "iteration": piece.iteration,
                    "micro_step": piece.micro_step,
                    "phase": piece.phase.value,
                    "peer": peer,
                }
                key = tuple(place[name] for name in keys)
                found[key].append(moved)
                if piece.lost_sockets or is_part:
                    lost.add(key)
        if closed:
            notes.append(
                f"rank {rank.rank} closed its connections before they were read: expected the "
                "assert before destroy_process_group"
            )
    moved_by = {key: None if key in lost else sum(some, PeerBytes()) for key, some in found.items()}
    return Table(
        title,
        (
            *(Column(key) for key in keys),
            Column("sent_bytes", Evidence.MEASURED),
            Column("received_bytes", Evidence.MEASURED),
        ),
        tuple(
            (*key, None, None) if moved is None else (*key, moved.sent_bytes, moved.received_bytes)
            for key, moved in moved_by.items()
        ),
        tuple(notes),
    )


def _why_no_wire(trace: Trace, ranks: Sequence[RankTrace], peers: Peers) -> dict[int, str]:
    """Why the kernel's counters do not give a rank's traffic, by rank; empty if they do."""
    calls: dict[int, list[TracedCall]] = defaultdict(list)
    for call in traced_calls(trace) if any(one.header.device != "cpu" for one in ranks) else ():
        calls[call.rank].append(call)
    return {
        rank.rank: f"the wire of rank {rank.rank} was not measured: expected connections over TCP "
        "on Linux"
        for rank in ranks
        if not goes_over_sockets(rank, peers, calls[rank.rank])
    }


def _is_in(chosen: Selection, iteration: int) -> bool:
    return WHOLE in chosen.iterations or iteration in chosen.iterations
