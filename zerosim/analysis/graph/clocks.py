"""Alignment of the clocks of several hosts, from causality.

Ranks of one host share a monotonic clock; two hosts' clocks differ by an offset. Only this is
certain between them: no message arrives before it was sent, and no rank ends an all-reduce, an
all-gather, a reduce-scatter, an all-to-all or a barrier before every rank has begun it. Each such
exchange bounds the offset from one side. The bounds leave an interval: its middle is the estimate,
half of its width the uncertainty. An empty interval means that the offset was not constant: a clock
drifted or was set. Hosts without an exchange are aligned by their wall clocks, without proof.
Lamport 1978 gives the relation; the intervals are those of Cristian 1989, from the program's own
traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from zerosim.analysis.graph.collectives import SYMMETRIC
from zerosim.analysis.graph.hops import Hops
from zerosim.analysis.graph.table import EventTable, Ints
from zerosim.record import Matching, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """One host's clock, seen from the first one.

    Attributes:
        ranks: of this host.
        offset_ns: added to its times to convert them to the first host's clock.
        uncertainty_ns: the true offset is at most this far away; None if nothing bounds it.
        num_exchanges: messages and collectives between it and the host it was compared with.
        is_contradictory: no constant offset fits all exchanges.
    """

    host: str
    ranks: tuple[int, ...]
    offset_ns: int
    uncertainty_ns: int | None
    num_exchanges: int = 0
    is_contradictory: bool = False


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of all hosts, the reference first."""

    hosts: tuple[HostClock, ...]

    def offset_ns(self, rank: int) -> int:
        """The offset to add to the times of a rank."""
        return next((clock.offset_ns for clock in self.hosts if rank in clock.ranks), 0)


@dataclass(slots=True)
class _Bounds:
    """The known offset of one host relative to another."""

    low: int | None = None
    high: int | None = None
    num_exchanges: int = 0

    def at_least(self, value: int) -> None:
        self.low = value if self.low is None else max(self.low, value)

    def at_most(self, value: int) -> None:
        self.high = value if self.high is None else min(self.high, value)

    @property
    def width(self) -> int | None:
        return None if self.low is None or self.high is None else self.high - self.low

    def reversed(self) -> _Bounds:
        return _Bounds(
            None if self.high is None else -self.high,
            None if self.low is None else -self.low,
            self.num_exchanges,
        )


def align(trace: Trace, matching: Matching, table: EventTable, hops: Hops) -> Clocks:
    """Find the offset of each host's clock relative to that of the first rank.

    The hosts are joined by the pairs that bound each other best, as a tree; along it offsets and
    uncertainties add up.
    """
    hosts: dict[str, list[int]] = {}
    for rank in trace.ranks:
        hosts.setdefault(rank.header.host, []).append(rank.rank)
    names = tuple(hosts)
    walls = [_wall_offset(trace, hosts[name][0]) for name in names]
    first = HostClock(host=names[0], ranks=tuple(hosts[names[0]]), offset_ns=0, uncertainty_ns=0)
    if len(names) == 1:
        return Clocks((first,))
    bounds = _bounds(matching, table, hops, {r: i for i, n in enumerate(names) for r in hosts[n]})
    found = {0: first}
    while len(found) < len(names):
        known, new, between = min(
            _frontier(bounds, found, len(names)), key=lambda edge: _tightness(edge[2])
        )
        clock = _estimate(between, walls[known] - walls[new])
        base = found[known]
        uncertain = None in (base.uncertainty_ns, clock.uncertainty_ns)
        found[new] = replace(
            clock,
            host=names[new],
            ranks=tuple(hosts[names[new]]),
            offset_ns=clock.offset_ns + base.offset_ns,
            uncertainty_ns=None
            if uncertain
            else (clock.uncertainty_ns or 0) + (base.uncertainty_ns or 0),
            is_contradictory=clock.is_contradictory or base.is_contradictory,
        )
    return Clocks(tuple(found[index] for index in range(len(names))))


def _wall_offset(trace: Trace, rank: int) -> int:
    """The rank's clock minus its wall clock: if wall clocks agree, two hosts differ by this."""
    header = next(one.header for one in trace.ranks if one.rank == rank)
    return header.clock_ns - header.wall_ns


def _bounds(
    matching: Matching, table: EventTable, hops: Hops, host_of: Mapping[int, int]
) -> dict[tuple[int, int], _Bounds]:
    """By pair of hosts (a, b), a before b: bounds of the offset added to b's times."""
    bounds: dict[tuple[int, int], _Bounds] = {}
    for collective in matching.collectives:
        if not collective.complete or collective.op not in SYMMETRIC:
            continue
        begin: dict[int, int] = {}
        end: dict[int, int] = {}
        for rank, event in collective.events.items():
            if event.start_ns is None or event.end_ns is None:
                continue
            host = host_of[rank]
            begin[host] = max(begin.get(host, event.start_ns), event.start_ns)
            end[host] = min(end.get(host, event.end_ns), event.end_ns)
        for a, b in combinations(sorted(begin), 2):
            pair = bounds.setdefault((a, b), _Bounds())
            pair.at_least(begin[a] - end[b])
            pair.at_most(end[a] - begin[b])
            pair.num_exchanges += 1
    _add_messages(bounds, table, hops, host_of)
    return bounds


def _add_messages(
    bounds: dict[tuple[int, int], _Bounds],
    table: EventTable,
    hops: Hops,
    host_of: Mapping[int, int],
) -> None:
    """Each hop between two hosts bounds their offset from one side."""
    hosts = np.array([host_of.get(rank, -1) for rank in range(max(host_of) + 1)], np.int64)
    source, target = hosts[table.rank[hops.sends]], hosts[table.rank[hops.receives]]
    # both clocks: sent - arrived is the least offset to add to the receiver's times
    least: Ints = table.start[hops.sends] - table.end[hops.receives]
    seen = table.ended[hops.receives] & (source != target)
    num_hosts = len(set(host_of.values()))
    for code in np.unique(source[seen] * num_hosts + target[seen]):
        a, b = divmod(int(code), num_hosts)
        chosen = seen & (source == a) & (target == b)
        value = int(least[chosen].max())
        pair = bounds.setdefault((min(a, b), max(a, b)), _Bounds())
        pair.num_exchanges += int(chosen.sum())
        if a < b:
            pair.at_least(value)
        else:
            pair.at_most(-value)


def _frontier(
    bounds: Mapping[tuple[int, int], _Bounds], found: Mapping[int, HostClock], num_hosts: int
) -> Iterator[tuple[int, int, _Bounds]]:
    for known in found:
        for new in range(num_hosts):
            if new not in found:
                pair = bounds.get((min(known, new), max(known, new)), _Bounds())
                yield known, new, pair if known < new else pair.reversed()


def _tightness(between: _Bounds) -> tuple[bool, int, int]:
    """Lower is better: bounded before unbounded, then the narrower one."""
    width = between.width
    return width is None, abs(width or 0), -between.num_exchanges


def _estimate(between: _Bounds, wall_ns: int) -> HostClock:
    """The offset in the middle of its bounds; that of the wall clocks without bounds."""
    low, high = between.low, between.high
    clock = HostClock(
        host="",
        ranks=(),
        offset_ns=wall_ns,
        uncertainty_ns=None,
        num_exchanges=between.num_exchanges,
    )
    if low is None or high is None:
        one_sided = [low if low is not None else wall_ns, high if high is not None else wall_ns]
        return replace(clock, offset_ns=min(max(wall_ns, one_sided[0]), one_sided[1]))
    if low > high:
        half = (low - high + 1) // 2
        return replace(
            clock, offset_ns=(low + high) // 2, uncertainty_ns=half, is_contradictory=True
        )
    offset = (low + high) // 2
    return replace(clock, offset_ns=offset, uncertainty_ns=high - offset)
