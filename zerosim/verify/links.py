"""What was sent between ranks, by link class: within a node, between two nodes.

The trace says it by the messages of zerosim's own collectives, each of which names its receiver,
the wire by the rank at the other end of each socket. Of a native call the trace does not see the
messages, so a run with native calls is not split.
Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from zerosim.errors import ConfigError
from zerosim.events import Event, Kind, Op, Purpose
from zerosim.record import Peers, RankTrace, Trace, link_between, match_sockets, node_of
from zerosim.theory import Cost, Workload, framing, planned_calls
from zerosim.tiers import Link
from zerosim.verify.ledgers import has_no_law
from zerosim.verify.measure import STEP_PHASES, Reason, backend_of_call, cost_of, is_measured
from zerosim.verify.report import LinkRow, RankBytes

_ON_ITS_OWN = (Op.SEND, Op.RECEIVE)
OnLink = tuple[Reason, Link]


@dataclass(slots=True)
class Sent:
    """What one rank sent for one reason over one link class in one iteration.

    Attributes:
        cost: payload of the messages, and their number.
        framing_bytes: what the backend's protocol adds to what the rank sends; None if unknown.
        wire_bytes: what the kernel sent; None if it was not measured.
    """

    cost: Cost
    framing_bytes: int | None = 0
    wire_bytes: int | None = 0


LinkLedger = Mapping[OnLink, Sent]
"""What one rank sent in one iteration."""


def measure_links(trace: Trace) -> dict[int, dict[int, LinkLedger]] | None:
    """What each rank sent within optimizer steps over each link class, by iteration and rank.

    Returns:
        None if some call's messages are not in the trace.
    """
    peers = match_sockets(trace)
    found: dict[int, dict[int, LinkLedger]] = defaultdict(dict)
    for rank in trace.ranks:
        ledgers = _measure_rank(trace, rank, peers)
        if ledgers is None:
            return None
        for iteration, ledger in ledgers.items():
            found[iteration][rank.rank] = ledger
    return found


def _measure_rank(
    trace: Trace, rank: RankTrace, peers: Peers
) -> dict[int, dict[OnLink, Sent]] | None:
    found: dict[int, dict[OnLink, Sent]] = defaultdict(lambda: defaultdict(lambda: Sent(Cost())))
    parents: dict[int, Event] = {}
    has_wire = is_measured(rank)
    for event in rank.events:
        is_message = event.kind in (Kind.COLLECTIVE, Kind.TRANSFER)
        if event.op is None or not is_message or event.phase not in STEP_PHASES:
            continue
        parent = event
        if event.kind is Kind.COLLECTIVE:
            parents[event.id] = event
            if event.sent_bytes is None:
                within = _within_a_node(trace, rank, event)
                if within is None:
                    return None
                _add(found[event.iteration][_reason(event), Link.NODE], rank, event, within)
            _add_wire(trace, rank, found[event.iteration], event, peers, has_wire=has_wire)
        elif event.parent is not None:
            parent = parents[event.parent]
        if event.op in _ON_ITS_OWN and event.peers:
            link = link_between(trace, rank.rank, event.peers[0])
            sent = found[event.iteration][_reason(parent), link]
            _add_message(sent, rank, event)
    return {iteration: dict(ledger) for iteration, ledger in found.items()}


def _reason(event: Event) -> Reason:
    assert event.op is not None, "a collective has an operation"
    return Reason(event.phase, event.purpose or Purpose.UNLABELLED, event.op)


def _add_message(sent: Sent, rank: RankTrace, event: Event) -> None:
    size = event.payload_bytes
    one = Cost(size, 0, 1, 0) if event.op is Op.SEND else Cost(0, size, 0, 1)
    _add(sent, rank, event, one)


def _within_a_node(trace: Trace, rank: RankTrace, event: Event) -> Cost | None:
    """What a native call sends if none of it can leave the node; None if it may, or is unknown."""
    group = rank.groups.get(event.group)
    if group is None or len({node_of(trace, peer) for peer in group.ranks}) > 1:
        return None
    try:
        return cost_of(rank, event)
    except ConfigError:
        return None


def _add(sent: Sent, rank: RankTrace, event: Event, one: Cost) -> None:
    sent.cost += one
    added = framing(backend_of_call(rank, event), one)
    if added is None or sent.framing_bytes is None:
        sent.framing_bytes = None
    else:
        sent.framing_bytes += added.sent_bytes


def _add_wire(
    trace: Trace,
    rank: RankTrace,
    ledger: dict[OnLink, Sent],
    event: Event,
    peers: Peers,
    *,
    has_wire: bool,
) -> None:
    for peer in () if has_wire else event.peers:
        ledger[_reason(event), link_between(trace, rank.rank, peer)].wire_bytes = None
    for delta in event.wire:
        other = peers.get((rank.rank, delta.socket)) if has_wire else None
        if other is not None and delta.sent_bytes:
            moved = ledger[_reason(event), link_between(trace, rank.rank, other)]
            if moved.wire_bytes is not None:
                moved.wire_bytes += delta.sent_bytes


def link_rows(workload: Workload, ledgers: Mapping[int, LinkLedger]) -> tuple[LinkRow, ...]:
    """Theory, trace and wire by link class, a row for each reason, in the order of the links.

    Args:
        ledgers: of one iteration, by rank.
    """
    planned = {rank: _planned(workload, rank) for rank in ledgers}
    keys = {key for ledger in ledgers.values() for key in ledger}
    keys |= {key for plan in planned.values() for key in plan}
    for rank, ledger in ledgers.items():
        without = {k: v.cost.sent_bytes for k, v in ledger.items() if _has_none(k, workload)}
        planned[rank] = planned[rank] | without
    rows = [_row(key, ledgers, planned) for key in sorted(keys, key=_order)]
    return tuple(row for row in rows if any(cell.theory or cell.trace for cell in row.sent))


def _has_none(key: OnLink, workload: Workload) -> bool:
    return has_no_law(key[0].purpose, workload)


def _planned(workload: Workload, rank: int) -> dict[OnLink, int]:
    found: dict[OnLink, int] = defaultdict(int)
    for call in planned_calls(workload, rank):
        for link, sent in call.sent_by_link(workload, rank).items():
            found[Reason(call.phase, call.purpose, call.op), link] += sent
    return found


def _row(
    key: OnLink,
    ledgers: Mapping[int, LinkLedger],
    planned: Mapping[int, Mapping[OnLink, int]],
) -> LinkRow:
    reason, link = key
    cells = []
    for rank, ledger in sorted(ledgers.items()):
        sent = ledger.get(key) or Sent(Cost())
        cells.append(
            RankBytes(
                rank=rank,
                theory=planned[rank].get(key, 0),
                trace=sent.cost.sent_bytes,
                wire=sent.wire_bytes,
                algorithm=0,
                framing=sent.framing_bytes,
            )
        )
    return LinkRow(
        link=link, phase=reason.phase, purpose=reason.purpose, op=reason.op, sent=tuple(cells)
    )


def _order(key: OnLink) -> tuple[int, int, str, str]:
    reason, link = key
    return (
        list(Link).index(link),
        STEP_PHASES.index(reason.phase),
        reason.purpose.value,
        reason.op.value,
    )


def of_link(rows: Iterable[LinkRow], link: Link) -> list[LinkRow]:
    """The rows of one link class."""
    return [row for row in rows if row.link is link]
