"""Bytes that NCCL's protocols add on a rank's sockets to the payload of a call.

Its socket transport writes a header of 4 bytes before each message. The number of messages follows
from how NCCL splits a call: among channels, each of them into chunks, each chunk into two slices,
which are sent even if empty. Its protocol LL sends 4 bytes of flags with each 4 of data, so a small
call costs twice its payload; NCCL chooses it when it expects it to be faster.

The rules are those of NVIDIA/nccl 2.28 (src/enqueue.cc, src/device/prims_simple.h,
src/graph/tuning.cc), compared with the kernel's TCP counters of torch 2.11.0 with NCCL 2.28.9 on an
H100, 2 and 4 ranks over loopback, payloads from 8 B to 64 MiB (`tests/theory/test_nccl_wire.py`).
They apply if NCCL treats each rank as a node. More network interfaces mean more channels;
sockets do not see traffic over NVLink or InfiniBand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from zerosim.schema.events import Op
from zerosim.theory.messages import Request

HEADER_BYTES = 4
"""Header of each message of NCCL's socket transport."""
NUM_CHANNELS = 2
"""Channels over one interface, of a collective; a message between two ranks has at most as many."""
_KIB = 1 << 10
_P2P_CHUNK_BYTES = 128 * _KIB
_P2P_PART_BYTES = 4 * _KIB
"""Parts of a message, one per channel, are multiples of this."""
_SLICES = 2
_ROOTED_CHUNK_BYTES = 512 * _KIB
"""With the protocol Simple, broadcasts and reductions to one rank are forwarded slice by slice."""
_ROW_BYTES = 16
"""Alignment of a chunk of an all-reduce."""
_TRAFFIC_BYTES = 16 * _KIB
"""Minimum bytes per channel for NCCL to use one more."""


class Protocol(StrEnum):
    """How NCCL transfers data and signals its arrival."""

    LL = "ll"
    """Each 4 bytes of data with a 4-byte flag."""
    LL128 = "ll128"
    """Each 120 bytes of data with an 8-byte flag, a warp's 16 lines at a time."""
    SIMPLE = "simple"
    """Data alone; the header of its message signals the arrival."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """How a protocol splits data.

    Attributes:
        chunk_bytes: maximum payload of a message; for Simple, of two.
        line_bytes, wire_bytes: payload of an indivisible line, and its size on the wire.
        threads, thread_bytes: payload per thread below which NCCL uses one channel fewer.
    """

    chunk_bytes: int
    line_bytes: int
    wire_bytes: int
    threads: int
    thread_bytes: int

    def wire(self, payload_bytes: int) -> int:
        """Size of a payload on the wire, without header."""
        return _ratio(payload_bytes, self.line_bytes) * self.wire_bytes


_CUTS = {
    Protocol.LL: _Cut(32 * _KIB, 8, 16, 512, 8),
    Protocol.LL128: _Cut(576_000, 1920, 2048, 640, 8),
    Protocol.SIMPLE: _Cut(2048 * _KIB, 1, 1, 512, 64),
}


class NcclAlgorithm(StrEnum):
    """The topology along which NCCL sends."""

    RING = "ring"
    TREE = "tree"
    PAT = "pat"
    """A tree for each rank, all at once: log2(N) messages."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Algorithm and protocol forced by `NCCL_ALGO` and `NCCL_PROTO`; None where NCCL chooses."""

    algorithm: NcclAlgorithm | None = None
    protocol: Protocol | None = None


CHOSEN = Tuning()
"""Nothing is forced."""


@dataclass(frozen=True, slots=True)
class OnWire:
    """A call on one rank's wire, including payload, and NCCL's implementation of it."""

    sent_bytes: int
    received_bytes: int
    algorithm: NcclAlgorithm
    protocol: Protocol


def num_messages(num_bytes: int) -> int:
    """Number of NCCL's messages for one message of `send`."""
    if num_bytes <= 0:
        return 1
    num_parts = NUM_CHANNELS if num_bytes > _P2P_CHUNK_BYTES else 1
    if num_bytes < _P2P_CHUNK_BYTES:
        chunk = _P2P_CHUNK_BYTES // 4
    elif num_bytes < 8 * _P2P_CHUNK_BYTES:
        chunk = _P2P_CHUNK_BYTES // 2
    else:
        chunk = _P2P_CHUNK_BYTES
    part = _ratio(_ratio(num_bytes, num_parts), _P2P_PART_BYTES) * _P2P_PART_BYTES
    parts = (min(part, num_bytes - start) for start in range(0, num_bytes, part))
    return sum(_ratio(size, chunk) for size in parts)


def on_wire(
    request: Request,
    algorithm: NcclAlgorithm | None = None,
    protocol: Protocol | None = None,
) -> OnWire | None:
    """Bytes that NCCL's sockets send and receive for a call on one rank.

    Args:
        request: any operation; unequal parts only for an all-to-all.
        algorithm, protocol: as forced by `NCCL_ALGO` and `NCCL_PROTO`; else NCCL's choice.

    Returns:
        None if it is not known: a reduce-scatter of several tensors.
    """
    num_ranks, size = request.num_ranks, request.payload_bytes
    if request.op is Op.BARRIER:  # PyTorch all-reduces one element of fp32
        request = replace(request, op=Op.ALL_REDUCE, num_elements=1, element_bytes=4)
    elif num_ranks == 1 or size == 0:
        return OnWire(0, 0, NcclAlgorithm.RING, Protocol.SIMPLE)
    if request.op not in _PASSES:
        return _of_messages(request)
    if request.parts:
        return None
    chosen = _chosen(request, algorithm, protocol)
    return _RULES[chosen.algorithm](request, chosen.protocol)


def _of_messages(request: Request) -> OnWire:
    """Operations made of messages between two ranks: each message as in `num_messages`."""
    sent, received = (
        sum(size + HEADER_BYTES * num_messages(size) for size in sizes)
        for sizes in _exchanged(request)
    )
    return OnWire(sent, received, NcclAlgorithm.RING, Protocol.SIMPLE)


def _exchanged(request: Request) -> tuple[list[int], list[int]]:
    """Bytes sent to other ranks, and received from them, message by message."""
    op, others, one = request.op, request.num_ranks - 1, request.payload_bytes
    is_root = request.rank == request.root
    if op is Op.SEND:
        return [one], []
    if op is Op.RECEIVE:
        return [], [one]
    if op in (Op.GATHER, Op.SCATTER):
        many, block = [request.block_bytes] * others, [request.block_bytes]
        comes = is_root is (op is Op.GATHER)
        moved = many if is_root else block
        return ([], moved) if comes else (moved, [])
    equal = (request.num_elements // request.num_ranks,) * request.num_ranks
    sent, received = (
        [
            part * request.element_bytes
            for place, part in enumerate(way)
            if place != request.rank and part
        ]
        for way in (request.parts or equal, request.received_parts or equal)
    )
    return sent, received


# NCCL's choices

_PASSES = {Op.ALL_REDUCE: 2, Op.ALL_GATHER: 1, Op.REDUCE_SCATTER: 1, Op.BROADCAST: 1, Op.REDUCE: 1}
_BUS_BYTES_PER_US = 1200.0
"""NCCL assumes 10 Gbit/s for an interface without a known speed, such as loopback."""
_BASE_US = {
    (NcclAlgorithm.RING, Protocol.LL): 6.6,
    (NcclAlgorithm.RING, Protocol.LL128): 14.0,
    (NcclAlgorithm.RING, Protocol.SIMPLE): 8.4,
    (NcclAlgorithm.TREE, Protocol.LL): 6.8,
    (NcclAlgorithm.TREE, Protocol.LL128): 14.0,
    (NcclAlgorithm.TREE, Protocol.SIMPLE): 8.4,
    (NcclAlgorithm.PAT, Protocol.SIMPLE): 8.0,
}
_HOP_US = {
    (NcclAlgorithm.RING, Protocol.LL): 4.5,
    (NcclAlgorithm.RING, Protocol.LL128): 6.0,
    (NcclAlgorithm.RING, Protocol.SIMPLE): 14.0,
    (NcclAlgorithm.TREE, Protocol.LL): 5.0,
    (NcclAlgorithm.TREE, Protocol.LL128): 8.5,
    (NcclAlgorithm.TREE, Protocol.SIMPLE): 14.0,
}
"""Latency of a hop over the network, from src/graph/tuning.cc, as in `predict/placement`.
Except for a ring hop with LL or LL128, 2.7 and 4.0 there: an interface adds its own latency, and
with about 2 of it every measured choice is reproduced."""
_PART_OF_BUS = {
    NcclAlgorithm.RING: {Protocol.LL: 0.5, Protocol.LL128: 0.92, Protocol.SIMPLE: 1.0},
    NcclAlgorithm.TREE: {Protocol.LL: 1 / 3.8, Protocol.LL128: 120 / 128, Protocol.SIMPLE: 0.92},
}
_PLATEAU = 1.4
"""Factor of a ring all-reduce's latency over the network, once its messages are split."""
_PLATEAU_BYTES = 64
"""Bytes per channel and rank above which messages are split."""


@dataclass(frozen=True, slots=True)
class _ProtocolChoice:
    algorithm: NcclAlgorithm
    protocol: Protocol
    time_us: float


def _chosen(
    request: Request, algorithm: NcclAlgorithm | None, protocol: Protocol | None
) -> _ProtocolChoice:
    """The choice that NCCL's own model expects to be the fastest.

    A forced algorithm does not apply to an operation that lacks it.
    """
    # LL128 is seldom allowed over a network
    protocols = (Protocol.LL, Protocol.SIMPLE) if protocol is None else (protocol,)
    fitting = [choice for choice in _choices(request) if choice.protocol in protocols]
    forced = [choice for choice in fitting if choice.algorithm is algorithm]
    return min(forced or fitting, key=lambda choice: choice.time_us)


def _choices(request: Request) -> list[_ProtocolChoice]:
    num_ranks, size = request.num_ranks, request.payload_bytes
    is_rooted = request.op in (Op.BROADCAST, Op.REDUCE)
    hops = 1 if is_rooted else _PASSES[request.op] * (num_ranks - 1)
    is_cut = request.op is Op.ALL_REDUCE and size >= _PLATEAU_BYTES * NUM_CHANNELS * num_ranks
    found = []
    for protocol, part in _PART_OF_BUS[NcclAlgorithm.RING].items():
        share = 1.0 if is_rooted else num_ranks / hops
        latency = (
            _BASE_US[NcclAlgorithm.RING, protocol] + hops * _HOP_US[NcclAlgorithm.RING, protocol]
        )
        latency *= _PLATEAU if is_cut and protocol is Protocol.SIMPLE else 1
        time = latency + size / (part * _BUS_BYTES_PER_US * share)
        found.append(_ProtocolChoice(NcclAlgorithm.RING, protocol, time))
    levels = (num_ranks - 1).bit_length()
    if request.op is Op.ALL_REDUCE:
        for protocol, part in _PART_OF_BUS[NcclAlgorithm.TREE].items():
            hop = _HOP_US[NcclAlgorithm.TREE, protocol]
            latency = _BASE_US[NcclAlgorithm.TREE, protocol] + 2 * levels * hop
            time = latency + 2 * size / (part * _BUS_BYTES_PER_US)
            found.append(_ProtocolChoice(NcclAlgorithm.TREE, protocol, time))
    if request.op in (Op.ALL_GATHER, Op.REDUCE_SCATTER):
        latency = _BASE_US[NcclAlgorithm.PAT, Protocol.SIMPLE] + levels * 4.0 + 2.8 * num_ranks
        time = latency + size / (0.75 * _BUS_BYTES_PER_US * num_ranks / (num_ranks - 1))
        found.append(_ProtocolChoice(NcclAlgorithm.PAT, Protocol.SIMPLE, time))
    return found


# how each algorithm splits and sends


def _parts(request: Request, protocol: Protocol) -> list[int]:
    """The payload on each channel."""
    cut, size = _CUTS[protocol], request.payload_bytes
    per_thread = cut.thread_bytes
    if protocol is Protocol.LL:
        per_thread *= request.num_ranks
    traffic = (
        size * (2 if request.op is Op.ALL_REDUCE else 1) * (4 if protocol is Protocol.LL else 1)
    )
    fit = min(size // (cut.threads * per_thread), _ratio(traffic, _TRAFFIC_BYTES))
    count = max(1, min(NUM_CHANNELS, fit))
    # one rank's bytes are split, so that each part has as many bytes from every rank
    ranks = request.num_ranks if request.op in (Op.ALL_GATHER, Op.REDUCE_SCATTER) else 1
    each = max(1, _ratio(size // ranks, count)) * ranks
    return [min(each, size - start) for start in range(0, size, each)]


def _ring(request: Request, protocol: Protocol) -> OnWire:
    if request.op in (Op.BROADCAST, Op.REDUCE):
        return _along(request, protocol)
    hops = _PASSES[request.op] * (request.num_ranks - 1)
    slices = _SLICES if protocol is Protocol.SIMPLE else 1
    sent = received = 0
    whole = request.num_ranks * _CUTS[protocol].chunk_bytes
    for part in _parts(request, protocol):
        rounds, rest = divmod(part, whole)
        for size, times in ((whole, rounds), (rest, int(rest > 0))):
            headers = HEADER_BYTES * hops * slices
            sent += times * (headers + _round(request, protocol, size, request.rank))
            received += times * (headers + _round(request, protocol, size, request.rank - 1))
    return OnWire(sent, received, NcclAlgorithm.RING, protocol)


def _round(request: Request, protocol: Protocol, size: int, rank: int) -> int:
    """Bytes that a rank sends to the next in one round, in which each rank's chunk visits all.

    In a small all-reduce the last chunks may be empty, so ranks send different numbers of bytes.
    """
    num_ranks, cut = request.num_ranks, _CUTS[protocol]
    if request.op is not Op.ALL_REDUCE:
        return (num_ranks - 1) * cut.wire(size // num_ranks)
    row = _ratio(_ratio(size, num_ranks), _ROW_BYTES) * _ROW_BYTES
    rows = [cut.wire(max(0, min(row, size - place * row))) for place in range(num_ranks)]
    # rank r sends all chunks but the next rank's, then all but the one after that
    return 2 * sum(rows) - rows[rank % num_ranks] - rows[(rank + 1) % num_ranks]


def _along(request: Request, protocol: Protocol) -> OnWire:
    """A broadcast traverses the ring once, starting at its root; a reduction ends at its root."""
    num_ranks, cut = request.num_ranks, _CUTS[protocol]
    distance = (request.rank - request.root) % num_ranks
    if request.op is Op.REDUCE:  # the root comes last
        distance = (distance - 1) % num_ranks
    chunk = _ROOTED_CHUNK_BYTES if protocol is Protocol.SIMPLE else cut.chunk_bytes
    count = 0
    for part in _parts(request, protocol):
        rounds, rest = divmod(part, chunk)
        count += rounds * (HEADER_BYTES + cut.wire(chunk))
        count += HEADER_BYTES + cut.wire(rest) if rest else 0
    sent = count if distance < num_ranks - 1 else 0
    return OnWire(sent, count if distance else 0, NcclAlgorithm.RING, protocol)


def _tree(request: Request, protocol: Protocol) -> OnWire:
    """Each rank sends the payload once to each neighbour in the tree: up, or down."""
    count = _neighbours(request.rank, request.num_ranks)
    count *= HEADER_BYTES + _CUTS[protocol].wire(request.payload_bytes)
    return OnWire(count, count, NcclAlgorithm.TREE, protocol)


def _neighbours(rank: int, num_ranks: int) -> int:
    """Number of a rank's parents and children in NCCL's binary tree (src/graph/trees.cc)."""
    lowest = 1
    while lowest < num_ranks and not rank & lowest:
        lowest <<= 1
    if rank == 0:
        return int(num_ranks > 1)
    children = 0
    if step := lowest >> 1:
        children = 1  # the lower one always exists
        while step and rank + step >= num_ranks:
            step >>= 1
        children += bool(step)
    return 1 + children


def _pat(request: Request, protocol: Protocol) -> OnWire:
    num_ranks = request.num_ranks
    count = HEADER_BYTES * (num_ranks - 1).bit_length()
    count += (num_ranks - 1) * request.payload_bytes // num_ranks
    return OnWire(count, count, NcclAlgorithm.PAT, protocol)


_RULES = {NcclAlgorithm.RING: _ring, NcclAlgorithm.TREE: _tree, NcclAlgorithm.PAT: _pat}


def _ratio(number: int, size: int) -> int:
    return -(-number // size)
