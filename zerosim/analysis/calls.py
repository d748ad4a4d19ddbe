"""Bytes of one recorded call: by its messages, or by its algorithm; and its backend."""

from __future__ import annotations

from collections import defaultdict

from zerosim.base.errors import ConfigError
from zerosim.record import RankTrace
from zerosim.schema.events import Algorithm, Event, Kind, Op
from zerosim.theory import Cost, cost, framing
from zerosim.theory.algorithms import OF_A_RING, backend_messages
from zerosim.theory.messages import Request
from zerosim.theory.nccl import CHOSEN, Tuning, on_wire


def is_measured(rank: RankTrace) -> bool:
    """Whether the kernel's counters were read around each of a rank's collectives.

    On a device a call returns before it has sent anything, so they are read at phase borders only.
    """
    return len(rank.wire_samples) > 1 and rank.header.device == "cpu"


def count_messages(rank: RankTrace) -> dict[int, tuple[int, int]]:
    """The backend's messages of each collective, sent and received; a large transfer is split."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    columns = (rank.events.column(name) for name in ("kind", "parent", "op", "payload_bytes"))
    # messages of a collective are those of zerosim's rings, which are all on one device
    backends = {one.backend for one in rank.groups.values()}
    backend = Algorithm.NCCL.value if Algorithm.NCCL in backends else ""
    for kind, parent, op, size in zip(*columns, strict=True):
        if kind is Kind.TRANSFER and parent is not None:
            counts[parent][0 if op is Op.SEND else 1] += backend_messages(backend, size)
    return {parent: (sent, received) for parent, (sent, received) in counts.items()}


def cost_of(rank: RankTrace, event: Event, messages: tuple[int, int] = (0, 0)) -> Cost:
    """Bytes that a rank sent and received for one collective: recorded, or by its algorithm.

    Args:
        messages: those sent and received within it, if they are to be counted.

    Raises:
        ConfigError: the algorithm of a native call, or its group, is unknown.
    """
    if event.sent_bytes is not None and event.received_bytes is not None:
        sent, received = messages
        one = backend_messages(backend_of_call(rank, event), event.payload_bytes)
        if event.op is Op.SEND:
            sent = one
        elif event.op is Op.RECEIVE:
            received = one
        return Cost(event.sent_bytes, event.received_bytes, sent, received)
    if event.operator and event.op is not Op.UNKNOWN:
        raise ConfigError(
            f"rank {rank.rank}: the bytes sent by event {event.id} are unknown: its size was "
            f"not recorded"
        )
    known = rank.groups.get(event.group)
    group = () if known is None else known.ranks
    if event.algorithm is None or event.op is None or rank.rank not in group:
        raise ConfigError(
            f"rank {rank.rank}: the bytes sent by event {event.id} are unknown: its trace does "
            f"not name the algorithm, or the ranks of its group {event.group!r}"
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
    """The requested bytes of a call: its messages, or the bound of a native call.

    The wire shows additional bytes of the backend's algorithm, which the trace lacks.

    Args:
        moved: bytes that the rank sends and receives for the call: see `cost_of`.
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


def framing_of(
    rank: RankTrace, event: Event, moved: Cost, tuning: Tuning = CHOSEN
) -> tuple[int, int] | None:
    """The framing that the backend adds to a call's bytes; None if unknown.

    Args:
        moved: as returned by `cost_of`, or the requested bytes.
        tuning: the settings that were forced on NCCL.
    """
    if event.algorithm is not Algorithm.NCCL:
        added = framing(backend_of_call(rank, event), moved)
        return None if added is None else (added.sent_bytes, added.received_bytes)
    known = rank.groups.get(event.group)
    if known is None or rank.rank not in known.ranks:
        return None
    if event.op is None or event.op is Op.UNKNOWN or event.operator:
        return None
    peers = [peer for peer in event.peers if peer in known.ranks]
    found = on_wire(
        Request(
            op=event.op,
            num_ranks=len(known.ranks),
            rank=known.ranks.index(rank.rank),
            num_elements=event.elements,
            element_bytes=event.payload_bytes // event.elements if event.elements else 1,
            root=known.ranks.index(peers[0]) if peers else 0,
            parts=event.parts,
            received_parts=event.received_parts,
        ),
        tuning.algorithm,
        tuning.protocol,
    )
    if found is None:
        return None
    return found.sent_bytes - moved.sent_bytes, found.received_bytes - moved.received_bytes


def backend_of_call(rank: RankTrace, event: Event) -> str:
    """The backend of a call's messages; "" if unknown.

    A group may have a backend for each type of device, so a native call records its own.
    """
    if event.algorithm in {Algorithm.GLOO, Algorithm.NCCL}:
        return event.algorithm.value
    return rank.groups[event.group].backend if event.group in rank.groups else ""
