"""Bytes that rank r of N sends and receives with each algorithm, and a backend's framing.

The entry point for all algorithms: zerosim's ring (`ring`) and its pairwise messages, Gloo's native
calls (`gloo`), and the ring bound that NCCL documents; `nccl` knows the framing of NCCL's protocols
on sockets. All numbers are exact whole bytes of payload; a cost that is not known exactly is an
error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op
from zerosim.theory.gloo import gloo_cost
from zerosim.theory.messages import DEFAULT_CHUNK_BYTES, NOTHING, Cost, Request
from zerosim.theory.nccl import HEADER_BYTES, num_messages
from zerosim.theory.ring import ring_cost

OF_A_RING = (
    *(Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER),
    *(Op.BROADCAST, Op.REDUCE),
    *(Op.SEND, Op.RECEIVE),
)
"""The operations of zerosim's ring, which have a ring bound."""
GLOO_FRAME_BYTES = 48
"""One control message of Gloo's TCP transport, as measured (see `framing`)."""


@lru_cache(maxsize=4096)  # a program makes the same calls in each step
def cost(  # noqa: PLR0913, PLR0917 - a collective has that many parameters
    algorithm: Algorithm,
    op: Op,
    num_ranks: int,
    rank: int,
    num_elements: int,
    element_bytes: int,
    root: int = 0,
    chunk_bytes: int = DEFAULT_CHUNK_BYTES,
    parts: tuple[int, ...] = (),
    received_parts: tuple[int, ...] = (),
) -> Cost:
    """Bytes that one rank sends and receives for one collective, without framing.

    Args:
        algorithm: the implementation of the collective.
        op: the operation.
        num_ranks: N, the size of the group.
        rank: index in the group, 0 to N - 1.
        num_elements: elements of the whole buffer; see `Request`. Ignored for a barrier.
        element_bytes: bytes of one element.
        root: index of the root, if the operation has one.
        chunk_bytes: largest message of zerosim's ring; other algorithms ignore it.
        parts, received_parts: elements of unequal parts, as in `Event`; empty if they are equal.

    Returns:
        Exact payload bytes, and numbers of messages if known. A group of one rank moves nothing.

    Raises:
        ConfigError: a number is out of its range, or the exact cost is not known.
    """
    if op is Op.UNKNOWN:
        raise ConfigError("the traffic of an unknown operator cannot be computed")
    request = Request(
        op=op,
        num_ranks=num_ranks,
        rank=rank,
        num_elements=num_elements,
        element_bytes=element_bytes,
        root=root,
        chunk_bytes=chunk_bytes,
        parts=parts,
        received_parts=received_parts,
    )
    if algorithm is Algorithm.RING:
        return ring_cost(request)
    if algorithm is Algorithm.PAIRWISE:
        return _pairwise(request)
    if algorithm is Algorithm.GLOO:
        return gloo_cost(request)
    if algorithm is Algorithm.NCCL:
        return _nccl_bound(request)
    raise ConfigError(
        f"the traffic of {op} with algorithm {str(algorithm)!r} is not known: expected one of "
        f"{Algorithm.RING}, {Algorithm.PAIRWISE}, {Algorithm.GLOO}, {Algorithm.NCCL}"
    )


def backend_messages(backend: str, num_bytes: int) -> int:
    """Number of messages into which a backend splits one: NCCL may use several, Gloo always one."""
    return num_messages(num_bytes) if backend == Algorithm.NCCL else 1


def is_more_than_asked(algorithm: Algorithm, op: Op | None) -> bool:
    """Whether an algorithm implements a call as a larger one: Gloo reduce-scatters by all-reduce.

    Apart from that, a native call differs from its bound only by the rounding of its segments.
    """
    return algorithm is Algorithm.GLOO and op is Op.REDUCE_SCATTER


def _pairwise(request: Request) -> Cost:
    """Zerosim's pairwise messages: each rank sends one part of the buffer to every other rank."""
    if request.op is not Op.ALL_TO_ALL:
        raise ConfigError(
            f"the {Algorithm.PAIRWISE} algorithm has no {request.op}: expected {Op.ALL_TO_ALL}"
        )
    num_others = request.num_ranks - 1
    moved_bytes = num_others * request.block_bytes
    return Cost(moved_bytes, moved_bytes, num_others, num_others)


def _nccl_bound(request: Request) -> Cost:
    """The bound of the ring algorithm, as nccl-tests documents it; nothing here is measured.

    Source: nccl-tests, doc/PERFORMANCE.md, "Bus bandwidth": a rank sends (N-1)/N of the buffer for
    all-gather and reduce-scatter, twice that for all-reduce. NCCL may choose another algorithm
    (tree, NVLS), splits messages freely, and adds its own protocol bytes. Operations with a root go
    along the ring from it, or to it; all others consist of messages between two ranks.
    """
    match request.op:
        case Op.ALL_REDUCE:
            num_passes = 2
        case Op.ALL_GATHER | Op.REDUCE_SCATTER:
            num_passes = 1
        case Op.SEND:
            return Cost(request.payload_bytes, 0, None, None)
        case Op.RECEIVE:
            return Cost(0, request.payload_bytes, None, None)
        case Op.BROADCAST | Op.REDUCE:
            return replace(ring_cost(request), messages_sent=None, messages_received=None)
        case _:  # Gloo sends the same bytes to the same ranks, only split differently
            return replace(gloo_cost(request), messages_sent=None, messages_received=None)
    if request.num_ranks == 1:
        return NOTHING
    moved_bytes = num_passes * (request.num_ranks - 1) * request.block_bytes
    return Cost(moved_bytes, moved_bytes, None, None)


@dataclass(frozen=True, slots=True)
class Framing:
    """Bytes that a backend's protocol adds to the payload on one rank's wire.

    Attributes:
        sent_bytes: protocol bytes that this rank sends, for the messages of both directions.
        received_bytes: the same for received bytes.
    """

    sent_bytes: int
    received_bytes: int


def framing(backend: str, cost: Cost) -> Framing | None:
    """The framing that the backend adds to the payload of its messages.

    Gloo, as measured (torch 2.13.0 over TCP): for a message of any size, even an empty one, the
    sender sends two frames of 48 bytes (send ready; the header of the payload), and the receiver
    sends one (receive ready). A rank therefore sends 96 bytes per message sent and 48 per
    message received. To reproduce it, run `pytest tests/theory/test_gloo_wire.py`: it reads
    `bytes_sent - bytes_retrans + notsent_bytes` from `TCP_INFO` of each socket of each rank before
    and after a collective.

    NCCL over sockets, for sends and receives: a header before each of its own messages, which
    `messages` counts. For its collectives, see `zerosim.theory.nccl`.

    Args:
        backend: "gloo", "nccl", ... as in `Group.backend`; for a ring, its transport.
        cost: the cost of one or more collectives.

    Returns:
        The framing, or None if unknown: for any other backend, or number of messages.

    Raises:
        ConfigError: "ring", which is not a backend: its messages use one.
    """
    if backend == Algorithm.RING:
        raise ConfigError("'ring' is not a backend: give the backend of its messages")
    if cost.messages_sent is None or cost.messages_received is None:
        return None
    if backend == Algorithm.NCCL:
        sent, received = cost.messages_sent, cost.messages_received
        return Framing(HEADER_BYTES * sent, HEADER_BYTES * received)
    if backend != Algorithm.GLOO:
        return None
    sent_frames = 2 * cost.messages_sent + cost.messages_received
    received_frames = cost.messages_sent + 2 * cost.messages_received
    return Framing(GLOO_FRAME_BYTES * sent_frames, GLOO_FRAME_BYTES * received_frames)


__all__ = [
    "DEFAULT_CHUNK_BYTES",
    "GLOO_FRAME_BYTES",
    "OF_A_RING",
    "Cost",
    "Framing",
    "backend_messages",
    "cost",
    "framing",
    "is_more_than_asked",
]
