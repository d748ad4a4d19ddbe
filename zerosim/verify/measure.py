"""The trace ledger and the wire ledger: what was recorded, added up by reason.

Imports zerosim's L0, record, and theory's algorithm costs (what a native call makes a rank send
is not in the trace). No torch.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Event, Kind, Op, Phase, Purpose
from zerosim.record import Peers, RankTrace, Trace, match_sockets, phase_wire
from zerosim.theory import Cost, cost, framing
from zerosim.theory.algorithms import OF_A_RING

STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
"""What belongs to an optimizer step: an evaluation or a checkpoint does not."""


@dataclass(frozen=True, slots=True, order=True)
class Reason:
    """Why bytes moved: the key of a ledger's row."""

    phase: Phase
    purpose: Purpose
    op: Op


@dataclass(slots=True)
class Moved:
    """What one rank moved for one reason in one iteration.

    Attributes:
        cost: the trace ledger, payload only. Of a ring, the messages that were intercepted; of a
            native call, the bound of what was asked for.
        native: what the call's algorithm makes of it, which only the wire sees.
        framing_sent_bytes, framing_received_bytes: what the backend's protocol adds; None if it
            is not known.
        wire_sent_bytes, wire_received_bytes: the wire ledger; None if it was not measured.
    """

    num_collectives: int = 0
    payload_bytes: int = 0
    cost: Cost = field(default_factory=Cost)
    native: Cost = field(default_factory=Cost)
    framing_sent_bytes: int | None = 0
    framing_received_bytes: int | None = 0
    wire_sent_bytes: int | None = 0
    wire_received_bytes: int | None = 0


@dataclass(frozen=True, slots=True)
class Outside:
    """What the kernel counted in a phase outside of every collective."""

    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RankLedger:
    """What one rank moved in one iteration.

    Attributes:
        moved: by reason.
        outside: by phase; empty if the wire was not measured phase by phase.
        unknown: why the algorithm's bytes of some native call are not known; "" if they are.
    """

    rank: int
    moved: dict[Reason, Moved]
    outside: dict[Phase, Outside]
    unknown: str


def measure(trace: Trace) -> dict[int, dict[int, RankLedger]]:
    """Both ledgers of every rank, by iteration and rank.

    Calls that a foreign program leaves running beside each other have no wire of their own: what
    the kernel counted for them is in the ledger's `outside`.
    """
    of_engine = bool(trace.manifest.config)
    peers = match_sockets(trace)
    ledgers: dict[int, dict[int, RankLedger]] = defaultdict(dict)
    for rank in trace.ranks:
        for iteration, ledger in _measure_rank(rank, peers, of_engine=of_engine).items():
            ledgers[iteration][rank.rank] = ledger
    return dict(ledgers)


def _measure_rank(rank: RankTrace, peers: Peers, *, of_engine: bool) -> dict[int, RankLedger]:
    moved: dict[int, dict[Reason, Moved]] = defaultdict(lambda: defaultdict(Moved))
    unknown: dict[int, str] = defaultdict(str)
    num_messages = count_messages(rank)
    has_wire = is_measured(rank)
    for event in rank.events:
        if event.kind is not Kind.COLLECTIVE or event.op is None:
            continue
        row = moved[event.iteration][
            Reason(event.phase, event.purpose or Purpose.UNLABELLED, event.op)
        ]
        row.num_collectives += 1
        row.payload_bytes += event.payload_bytes
        try:
            moved_cost = cost_of(rank, event, num_messages.get(event.id, (0, 0)))
        except ConfigError as error:
            unknown[event.iteration] = str(error)
            continue
        row.cost += asked_of(rank, event, moved_cost)
        row.native += moved_cost
        _add_framing(row, rank, event, moved_cost)
        if has_wire and (of_engine or event.wire):
            _add_wire(row, rank, peers, event)
        else:
            row.wire_sent_bytes = row.wire_received_bytes = None
    outside = _outside(rank, peers) if has_wire else {}
    return {
        iteration: RankLedger(rank.rank, dict(rows), outside.get(iteration, {}), unknown[iteration])
        for iteration, rows in moved.items()
    }


def is_measured(rank: RankTrace) -> bool:
    """Whether the kernel's counters say what a rank's collectives sent."""
    return len(rank.wire_samples) > 1 and rank.header.device == "cpu"


def count_messages(rank: RankTrace) -> dict[int, tuple[int, int]]:
    """Messages sent and received by each collective, counted from its transfers."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for event in rank.events:
        if event.kind is Kind.TRANSFER and event.parent is not None:
            counts[event.parent][0 if event.op is Op.SEND else 1] += 1
    return {parent: (sent, received) for parent, (sent, received) in counts.items()}


def cost_of(rank: RankTrace, event: Event, messages: tuple[int, int] = (0, 0)) -> Cost:
    """What one collective made a rank send and receive: recorded, or by its algorithm.

    Args:
        messages: sent and received within it, if they are to be counted.

    Raises:
        ConfigError: the algorithm of a native call, or its group, is not known.
    """
    if event.sent_bytes is not None and event.received_bytes is not None:
        sent, received = messages
        if event.op is Op.SEND:
            sent = 1
        elif event.op is Op.RECEIVE:
            received = 1
        return Cost(event.sent_bytes, event.received_bytes, sent, received)
    known = rank.groups.get(event.group)
    group = () if known is None else known.ranks
    if event.algorithm is None or event.op is None or rank.rank not in group:
        raise ConfigError(
            f"rank {rank.rank}: what event {event.id} sends is not known: its trace does not say "
            f"by which algorithm, or who is in its group {event.group!r}"
        )
    element_bytes = event.payload_bytes // event.elements if event.elements else 1
    return cost(
        event.algorithm,
        event.op,
        len(group),
        group.index(rank.rank),
        event.elements,
        element_bytes,
        root=group.index(event.peers[0]) if event.peers and event.peers[0] in group else 0,
        parts=event.parts,
        received_parts=event.received_parts,
    )


def asked_of(rank: RankTrace, event: Event, moved: Cost) -> Cost:
    """What a call asks a rank to send and receive: its messages, or the bound of a native call.

    What a backend's algorithm moves beyond that is not in the trace: the wire shows it.

    Args:
        moved: what the call makes the rank send and receive: see `cost_of`.
    """
    if event.sent_bytes is not None or event.op not in OF_A_RING:
        return moved
    group = rank.groups[event.group].ranks
    return cost(
        Algorithm.RING,
        event.op,
        len(group),
        group.index(rank.rank),
        event.elements,
        event.payload_bytes // event.elements if event.elements else 1,
        root=group.index(event.peers[0]) if event.peers and event.peers[0] in group else 0,
    )


def _add_framing(row: Moved, rank: RankTrace, event: Event, moved: Cost) -> None:
    added = framing(backend_of_call(rank, event), moved)
    if added is None or row.framing_sent_bytes is None or row.framing_received_bytes is None:
        row.framing_sent_bytes = row.framing_received_bytes = None
    else:
        row.framing_sent_bytes += added.sent_bytes
        row.framing_received_bytes += added.received_bytes


def _add_wire(row: Moved, rank: RankTrace, peers: Peers, event: Event) -> None:
    if row.wire_sent_bytes is None or row.wire_received_bytes is None:
        return
    for delta in event.wire:
        if (rank.rank, delta.socket) in peers:
            row.wire_sent_bytes += delta.sent_bytes
            row.wire_received_bytes += delta.received_bytes


def _outside(rank: RankTrace, peers: Peers) -> dict[int, dict[Phase, Outside]]:
    found: dict[int, dict[Phase, Outside]] = defaultdict(dict)
    for piece in phase_wire(rank, peers):
        before = found[piece.iteration].get(piece.phase, Outside())
        found[piece.iteration][piece.phase] = Outside(
            before.sent_bytes + piece.sent_bytes - piece.collective_bytes.sent_bytes,
            before.received_bytes + piece.received_bytes - piece.collective_bytes.received_bytes,
        )
    return found


def algorithm_of(trace: Trace) -> Algorithm:
    """Who carried the collectives out; of a run of the engine, as it was configured."""
    if trace.manifest.config.get("collectives") == "ring":
        return Algorithm.RING
    try:
        return Algorithm(backend_of(trace))
    except ValueError:
        return Algorithm.OTHER


def backend_of(trace: Trace) -> str:
    """Whose messages they are: the backend of the groups that were used.

    The manifest is written before there is any group, or by a name that the program gave to several
    backends ("cpu:gloo"); without a group it is all there is.
    """
    named = trace.manifest.backend
    used = [group.backend for rank in trace.ranks for group in rank.groups.values()]
    return named if named in used else next(filter(None, used), named)


def backend_of_call(rank: RankTrace, event: Event) -> str:
    """Who carried a call's messages; "" if it is not known.

    A group may have a backend for each type of device: a native call says by which it went.
    """
    if event.algorithm in {Algorithm.GLOO, Algorithm.NCCL}:
        return event.algorithm.value
    return rank.groups[event.group].backend if event.group in rank.groups else ""
