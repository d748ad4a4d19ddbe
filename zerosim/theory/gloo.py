"""The actual traffic of a rank for each native call of PyTorch's Gloo.

Each rule below was derived from the algorithms documented in Gloo's sources
(github.com/pytorch/gloo, files allreduce.cc, reduce.cc, allgather.cc, alltoall.cc, broadcast.cc,
gather.cc, scatter.cc, barrier.cc) and then compared with the kernel's TCP counters of torch 2.13.0
(CPU build) over loopback, with 2, 3, 4 and 5 ranks, elements of 1, 2, 4 and 8 bytes, and payloads
from 0 to 16 MB: each of the 7,130 readings was reproduced to the byte.
`tests/theory/test_gloo_wire.py` repeats a part of that measurement; it fails for a version of
PyTorch that changes an algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from zerosim.schema.events import Op
from zerosim.theory.messages import NOTHING, Cost, Request

MAX_SEGMENT_BYTES = 1 << 20
"""Gloo's default upper bound of a segment of an all-reduce or reduce."""


def gloo_cost(request: Request) -> Cost:
    """Bytes that one rank sends and receives with Gloo.

    - all-reduce: a ring reduce-scatter and a ring all-gather of N blocks; the blocks are split into
      segments, and the last ones are shorter or empty, so ranks differ.
    - reduce-scatter (`reduce_scatter_tensor`): the same all-reduce. The list form,
      `reduce_scatter`, and coalesced calls are an all-reduce of each tensor.
    - all-gather: a ring; each hop sends a block as two messages. An empty one sends nothing.
    - all-to-all: a message to each other rank, of any size, including none.
    - broadcast: a binomial tree from the root.
    - reduce: a ring reduce-scatter, then a message from each rank to the root. Above 2N MiB it
        sends more than that, because its loop continues for all but two segments.
    - gather, scatter: a message per rank other than the root.
    - barrier: an empty message in each of ceil(log2 N) rounds.
    - send, receive: one message of any size.

    Args:
        request: any operation.

    Returns:
        Exact payload bytes and number of messages; empty messages are counted if Gloo sends them.

    Raises:
        ConfigError: an operation in equal parts with a number of elements not divisible by N.
    """
    return _RULES[request.op](request)


@dataclass(frozen=True, slots=True)
class _Segments:
    """A buffer split into equal segments; the last ones may be shorter or empty.

    `num_segments` is a multiple of N; block j, which belongs to rank j, is the j-th run of
    num_segments / N of them.
    """

    total_bytes: int
    segment_bytes: int
    num_segments: int

    def run(self, start: int, count: int) -> tuple[int, int]:
        """Bytes and messages of `count` segments from `start`, counted around the buffer."""
        start %= self.num_segments
        stop = start + count
        if stop <= self.num_segments:
            return self._until(stop, start)
        head = self._until(self.num_segments, start)
        tail = self._until(stop - self.num_segments, 0)
        return head[0] + tail[0], head[1] + tail[1]

    def _until(self, stop: int, start: int) -> tuple[int, int]:
        num_filled = -(-self.total_bytes // self.segment_bytes)
        first, last = min(start, num_filled), min(stop, num_filled)
        num_bytes = min(stop * self.segment_bytes, self.total_bytes)
        return num_bytes - min(start * self.segment_bytes, self.total_bytes), last - first


def _exchange(segments: _Segments, send_from: int, receive_from: int, count: int) -> Cost:
    sent_bytes, messages_sent = segments.run(send_from, count)
    received_bytes, messages_received = segments.run(receive_from, count)
    return Cost(sent_bytes, received_bytes, messages_sent, messages_received)


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _largest_segment(element_bytes: int) -> int:
    return element_bytes * max(1, MAX_SEGMENT_BYTES // element_bytes)


def _all_reduce(request: Request) -> Cost:
    """Rank r sends S minus block r, then S minus block r - 1, to rank r - 1."""
    total_bytes, num_ranks = request.payload_bytes, request.num_ranks
    if total_bytes == 0 or num_ranks == 1:
        return NOTHING
    num_full = -(-total_bytes // _largest_segment(request.element_bytes))
    num_segments = _round_up(max(num_full, 2 * num_ranks), num_ranks)
    segment_bytes = _round_up(-(-total_bytes // num_segments), request.element_bytes)
    segments = _Segments(total_bytes, segment_bytes, num_segments)
    block = num_segments // num_ranks
    own = request.rank * block
    count = num_segments - block
    scatter = _exchange(segments, own + block, own + 2 * block, count)
    gather = _exchange(segments, own, own + block, count)
    return scatter + gather


def _reduce(request: Request) -> Cost:
    total_bytes, num_ranks = request.payload_bytes, request.num_ranks
    if total_bytes == 0 or num_ranks == 1:
        return NOTHING
    half_block = -(-total_bytes // (2 * num_ranks))
    segment_bytes = _round_up(
        min(half_block, _largest_segment(request.element_bytes)), request.element_bytes
    )
    num_full = -(-total_bytes // segment_bytes)
    num_segments = _round_up(max(num_full, 2 * num_ranks), num_ranks)
    segments = _Segments(total_bytes, segment_bytes, num_segments)
    block = num_segments // num_ranks
    own = request.rank * block
    # All segments but two: with two segments per block, that is the whole reduce-scatter; with
    # more, Gloo's loop sends segments that it has already sent.
    cost = _exchange(segments, own + block, own + 2 * block, num_segments - 2)
    to_root = [_one_message(segments, rank * block, block) for rank in range(num_ranks)]
    if request.rank != request.root:
        sent_bytes, messages_sent = to_root[request.rank]
        return cost + Cost(sent_bytes, 0, messages_sent, 0)
    for rank, (received_bytes, messages_received) in enumerate(to_root):
        if rank != request.root:
            cost += Cost(0, received_bytes, 0, messages_received)
    return cost


def _one_message(segments: _Segments, start: int, count: int) -> tuple[int, int]:
    num_bytes, num_messages = segments.run(start, count)
    return num_bytes, min(1, num_messages)


def _broadcast(request: Request) -> Cost:
    """In round i every rank that has the payload sends it to the rank 2^i further on.

    Ranks are counted from the root. Rank v receives the payload in the round of its highest bit, so
    it sends in all later rounds, while there are ranks left.
    """
    distance = (request.rank - request.root) % request.num_ranks
    num_rounds = (request.num_ranks - 1).bit_length()
    num_sends = sum(
        distance + (1 << power) < request.num_ranks
        for power in range(distance.bit_length(), num_rounds)
    )
    num_receives = int(distance > 0)
    return Cost(
        request.payload_bytes * num_sends,
        request.payload_bytes * num_receives,
        num_sends,
        num_receives,
    )


def _reduce_scatter(request: Request) -> Cost:
    if request.parts:
        each = (replace(request, num_elements=part, parts=()) for part in request.parts)
        return sum(map(_all_reduce, each), Cost())
    _ = request.block_bytes  # raises if not divisible, as PyTorch does
    return _all_reduce(request)


def _all_gather(request: Request) -> Cost:
    moved_bytes = request.block_bytes * (request.num_ranks - 1)
    num_messages = 2 * (request.num_ranks - 1) if request.num_elements else 0
    return Cost(moved_bytes, moved_bytes, num_messages, num_messages)


def _all_to_all(request: Request) -> Cost:
    num_others = request.num_ranks - 1
    if request.parts:
        sent, received = (
            (sum(parts) - parts[request.rank]) * request.element_bytes
            for parts in (request.parts, request.received_parts)
        )
        return Cost(sent, received, num_others, num_others)
    moved_bytes = request.block_bytes * num_others
    return Cost(moved_bytes, moved_bytes, num_others, num_others)


def _gather(request: Request) -> Cost:
    num_others = request.num_ranks - 1
    if request.rank == request.root:
        return Cost(0, request.block_bytes * num_others, 0, num_others)
    return Cost(request.block_bytes, 0, 1, 0)


def _scatter(request: Request) -> Cost:
    mirror = _gather(request)
    return Cost(
        mirror.received_bytes, mirror.sent_bytes, mirror.messages_received, mirror.messages_sent
    )


def _barrier(request: Request) -> Cost:
    num_rounds = (request.num_ranks - 1).bit_length()
    return Cost(0, 0, num_rounds, num_rounds)


def _send(request: Request) -> Cost:
    return Cost(request.payload_bytes, 0, 1, 0)


def _receive(request: Request) -> Cost:
    return Cost(0, request.payload_bytes, 0, 1)


_RULES: dict[Op, Callable[[Request], Cost]] = {
    Op.ALL_REDUCE: _all_reduce,
    Op.REDUCE_SCATTER: _reduce_scatter,
    Op.ALL_GATHER: _all_gather,
    Op.BROADCAST: _broadcast,
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.ALL_TO_ALL: _all_to_all,
    Op.SEND: _send,
    Op.RECEIVE: _receive,
    Op.BARRIER: _barrier,
}
