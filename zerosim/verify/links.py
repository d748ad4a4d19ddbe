"""What was sent between ranks, by link class: within a node, between two nodes.

The trace says it by the messages of zerosim's own collectives, each of which names its receiver,
the wire by the rank at the other end of each socket. Of a native call the trace does not see the
messages, so a run with native calls is not split.
Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from zerosim.analysis.calls import backend_of_call, cost_of, is_measured
from zerosim.errors import ConfigError
from zerosim.events import Event, Kind, Op, Purpose
from zerosim.record import Peers, RankTrace, Trace, link_between, match_sockets, node_of
from zerosim.theory import Cost, framing
from zerosim.theory.movement import MESSAGES
from zerosim.theory.programs import ZeroPlan
from zerosim.tiers import Link
from zerosim.verify.attribution import OF_BLOCKS, RankStep
from zerosim.verify.measure import STEP_PHASES
from zerosim.verify.report import LedgerRow
from zerosim.verify.rows import Cell, RowKey, rows_of
from zerosim.verify.steps import TracedStep

Cells = Mapping[RowKey, Cell]
"""What one rank sent in one iteration, by reason and link."""


def measure_links(trace: Trace) -> dict[int, dict[int, Cells]] | None:
    """What each rank sent within optimizer steps over each link class, by iteration and rank.

    Returns:
        None if some call's messages are not in the trace.
    """
    peers = match_sockets(trace)
    found: dict[int, dict[int, Cells]] = defaultdict(dict)
    for rank in trace.ranks:
        ledgers = _measure_rank(trace, rank, peers)
        if ledgers is None:
            return None
        for iteration, ledger in ledgers.items():
            found[iteration][rank.rank] = ledger
    return found


def _measure_rank(
    trace: Trace, rank: RankTrace, peers: Peers
) -> dict[int, dict[RowKey, Cell]] | None:
    has_wire = is_measured(rank)
    found: dict[int, dict[RowKey, Cell]] = defaultdict(
        lambda: defaultdict(lambda: Cell(counted=[0, 0] if has_wire else None))
    )
    parents: dict[int, Event] = {}
    for event in rank.events:
        is_message = event.kind in (Kind.COLLECTIVE, Kind.TRANSFER)
        if event.op is None or not is_message or event.phase not in STEP_PHASES:
            continue
        cells, parent = found[event.iteration], event
        if event.kind is Kind.COLLECTIVE:
            parents[event.id] = event
            if event.sent_bytes is None:
                within = _within_a_node(trace, rank, event)
                if within is None:
                    return None
                _add(cells[_reason(event, Link.NODE)], rank, event, within)
            _count(trace, rank, cells, event, peers)
        elif event.parent is not None:
            parent = parents[event.parent]
        if event.op in MESSAGES and event.peers:
            size = event.payload_bytes
            one = Cost(size, 0, 1, 0) if event.op is Op.SEND else Cost(0, size, 0, 1)
            link = link_between(trace, rank.rank, event.peers[0])
            _add(cells[_reason(parent, link)], rank, event, one)
    return {iteration: dict(cells) for iteration, cells in found.items()}


def _count(
    trace: Trace, rank: RankTrace, cells: dict[RowKey, Cell], event: Event, peers: Peers
) -> None:
    """Add what the kernel sent for a call, by the node at the other end of each socket."""
    for delta in event.wire:
        other = peers.get((rank.rank, delta.socket))
        if other is not None and delta.sent_bytes:
            cell = cells[_reason(event, link_between(trace, rank.rank, other))]
            if cell.counted is not None:
                cell.counted[0] += delta.sent_bytes


def _reason(event: Event, link: Link) -> RowKey:
    purpose = event.purpose or Purpose.UNLABELLED
    return RowKey("", event.phase, purpose, event.op, link=link)


def _within_a_node(trace: Trace, rank: RankTrace, event: Event) -> Cost | None:
    """What a native call sends if none of it can leave the node; None if it may, or is unknown."""
    group = rank.groups.get(event.group)
    if group is None or len({node_of(trace, peer) for peer in group.ranks}) > 1:
        return None
    try:
        return cost_of(rank, event)
    except ConfigError:
        return None


def _add(cell: Cell, rank: RankTrace, event: Event, one: Cost) -> None:
    for place, moved in enumerate((one.sent_bytes, one.received_bytes)):
        cell.trace[place] += moved
        cell.native[place] += moved
    added = framing(backend_of_call(rank, event), one)
    if added is None or cell.framing is None:
        cell.framing = None
    else:
        cell.framing[0] += added.sent_bytes


def link_rows(step: TracedStep, measured: Mapping[int, Cells]) -> tuple[LedgerRow, ...]:
    """Theory, trace and wire by link class, a row for each reason, in the order of the links.

    Args:
        measured: of the step's iteration, by rank.
    """
    cells = {rank.rank: dict(measured.get(rank.rank, {})) for rank in step.ranks}
    for rank in step.ranks:
        _plan(rank, cells[rank.rank])
    rows = rows_of(cells, ())
    moving = [row for row in rows if any(cell.theory or cell.trace for cell in row.sent)]
    links = list(Link)
    return tuple(sorted(moving, key=lambda row: links.index(row.link) if row.link else -1))


def _plan(rank: RankStep, cells: dict[RowKey, Cell]) -> None:
    """Set what is planned beside what was measured."""
    for plan in rank.plans:
        assert isinstance(plan, ZeroPlan), "of other systems, messages are not known by link"
        for call in plan.calls:
            moved = {} if call.op is None else call.moved_by_link(rank.rank, plan.ranks_per_node)
            for link, sent in moved.items():
                key = RowKey("", call.phase, call.purpose, call.op, link=link)
                cells.setdefault(key, Cell(counted=[0, 0])).theory[0] += sent
        for key, cell in cells.items():
            if key.purpose in OF_BLOCKS and key.purpose not in plan.purposes:
                cell.theory[0] = cell.trace[0]  # how much it ought to be is not known
