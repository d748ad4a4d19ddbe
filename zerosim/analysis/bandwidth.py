"""Algorithm and bus bandwidth of collectives, as nccl-tests defines them.

    algorithm bandwidth   payload / time
    bus bandwidth         this, multiplied by a factor that depends on the number of ranks and the
                          operation, for comparison with the bandwidth of hardware links

The factors are those of nccl-tests, doc/PERFORMANCE.md. There, the time is that of the whole call,
on the slowest rank (its option `-a 3`), and all ranks call at the same time. The ranks of a
training run do not, so the time after the last arrival is given as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from statistics import median_low

from zerosim.analysis.graph import EventGraph, NodeKind
from zerosim.schema.events import Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Collectives of one operation and size.

    Attributes:
        num_ranks: size of their group.
        num_collectives: number of collectives.
        call_ns: median time of a call, from start to end on the slowest recorded rank, including
            its waits for others.
        moving_ns: median of the time from the last arrival to the last end; None if an imported run
            lacks ranks.
    """

    op: Op
    payload_bytes: int
    num_ranks: int
    num_collectives: int
    call_ns: int
    moving_ns: int | None

    @property
    def algorithm_bytes_per_s(self) -> float | None:
        """Payload divided by the time of a call."""
        return _rate(self.payload_bytes, self.call_ns)

    @property
    def bus_bytes_per_s(self) -> float | None:
        """Traffic per link divided by the time of a call."""
        return _rate(self.payload_bytes * bus_factor(self.op, self.num_ranks), self.call_ns)

    @property
    def moving_bus_bytes_per_s(self) -> float | None:
        """Traffic per link divided by the time after the last arrival."""
        if self.moving_ns is None:
            return None
        return _rate(self.payload_bytes * bus_factor(self.op, self.num_ranks), self.moving_ns)


def bus_factor(op: Op, num_ranks: int) -> Fraction:
    """The ratio of bus bandwidth to algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md)."""
    if op is Op.ALL_REDUCE:
        return Fraction(2 * (num_ranks - 1), num_ranks)
    if op in (Op.BROADCAST, Op.REDUCE, Op.SEND, Op.RECEIVE):
        return Fraction(1)
    return Fraction(num_ranks - 1, num_ranks)


def bandwidths(graph: EventGraph) -> tuple[Bandwidth, ...]:
    """Bandwidths of the collectives that moved something, by operation and size.

    Only collectives that all ranks have called count, except for ranks that an imported run lacks.
    """
    lacks = set(graph.trace.lacks)
    calls: dict[tuple[Op, int, int], list[int]] = {}
    moving: dict[tuple[Op, int, int], list[int]] = {}
    for node in graph.is_kind(NodeKind.MATCH).nonzero()[0].tolist():
        matched = graph.collective_of(node)
        assert matched is not None
        events = list(matched.events.values())
        durations = [
            event.end_ns - event.start_ns
            for event in events
            if event.start_ns is not None and event.end_ns is not None
        ]
        payload = events[0].payload_bytes
        ranks = matched.key.ranks
        is_whole = matched.complete or {*matched.events} == {*ranks} - lacks
        if not is_whole or len(durations) < len(events) or not payload:
            continue
        key = (matched.op, payload, len(ranks))
        calls.setdefault(key, []).append(max(durations))
        if matched.complete:
            moving.setdefault(key, []).append(int(graph.end[node] - graph.start[node]))
    return tuple(
        Bandwidth(
            op=op,
            payload_bytes=payload,
            num_ranks=num_ranks,
            num_collectives=len(calls[op, payload, num_ranks]),
            call_ns=median_low(calls[op, payload, num_ranks]),
            moving_ns=median_low(moved)
            if (moved := moving.get((op, payload, num_ranks)))
            else None,
        )
        for op, payload, num_ranks in sorted(calls, key=lambda key: (key[0].value, *key[1:]))
    )


def _median(times: list[int]) -> int | None:
    return median_low(times) if times else None


def _rate(size: int | Fraction, time_ns: int) -> float | None:
    return float(Fraction(size) * 10**9 / time_ns) if time_ns > 0 else None
