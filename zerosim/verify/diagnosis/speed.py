"""Stragglers: a rank that computes longer than the others, a link with slower messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from zerosim.record import RankTrace
from zerosim.schema.events import Event, Kind, Op, Phase
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.evidence import ObservedRun, advice
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong

_SLOWER = 2.0
"""A rank is slow if it takes this many times as long as the slowest of the others."""
_LEAST_MS = 20.0
_LEAST_LINK_MS = 8.0
_LINK_SLOWER = 4.0
_MOST = 0.8
"""A rank must be slow in at least this fraction of its iterations."""
_LEAST_ITERATIONS = 3
_CERTAIN = 10
"""Minimum number of slow iterations; fewer may be chance."""
_MS = 1e6
_Part = tuple[int, Phase, str]
"""A computation of an iteration: its micro-step, its phase and its unit."""


def speed_findings(run: ObservedRun) -> list[Finding]:
    """A rank or a link that is slower than the others, from some iteration on.

    For a running program, it is checked only after several iterations.
    """
    ranks = [state.trace for state in run.states.values()]
    return [*_slow_rank(ranks), *_slow_link(ranks)]


def _slow_rank(ranks: Sequence[RankTrace]) -> list[Finding]:
    parts = {rank.rank: _computed(rank) for rank in ranks}
    computed = {
        rank: {i: sum(one.values()) for i, one in own.items()} for rank, own in parts.items()
    }
    for rank, own in computed.items():
        others = [times for other, times in computed.items() if other != rank]
        if not others:
            continue
        common = sorted(set(own).intersection(*others))[1:]  # the first one warms up
        slow = [i for i in common if _is_slow(own[i], [times[i] for times in others])]
        since = _since(common, slow)
        if since is None:
            continue
        later = [i for i in common if i >= since]
        if len(later) < _CERTAIN and not _is_slow_throughout(rank, parts, later):
            continue
        took = median(own[i] for i in later) / _MS
        rest = median(max(times[i] for times in others) for i in later) / _MS
        unit = _slowest_unit(ranks, rank, since)
        return [
            Finding(
                wrong=Wrong.SLOW,
                ranks=(rank,),
                place=Place(iteration=since, unit=unit),
                sentence=wording.said(
                    "speed.rank_unit" if unit else "speed.rank",
                    rank=rank,
                    iteration=since,
                    took=f"{took:.0f}",
                    rest=f"{rest:.0f}",
                    unit=unit,
                ),
                advice=advice("machine"),
            )
        ]
    return []


def _computed(rank: RankTrace) -> dict[int, dict[_Part, int]]:
    """Computing time of its units, ns by iteration, excluding waits."""
    computed: dict[int, list[Event]] = defaultdict(list)
    waited: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for _, event in rank.events.of_kind(Kind.COMPUTE, Kind.WAIT):
        if event.start_ns is None or event.end_ns is None or event.iteration < 0:
            continue
        if event.kind is Kind.COMPUTE:
            computed[event.iteration].append(event)
        else:
            waited[event.iteration].append((event.start_ns, event.end_ns))
    found: dict[int, dict[_Part, int]] = {}
    for iteration, events in computed.items():
        parts = found[iteration] = defaultdict(int)
        for event in events:
            parts[event.micro_step, event.phase, event.unit] += _without(event, waited[iteration])
    return found


def _without(event: Event, waited: Sequence[tuple[int, int]]) -> int:
    """Duration of a computation, ns, excluding waits."""
    begin, end = event.start_ns or 0, event.end_ns or 0
    return end - begin - sum(max(0, min(end, until) - max(begin, since)) for since, until in waited)


def _is_slow_throughout(
    rank: int, parts: Mapping[int, Mapping[int, Mapping[_Part, int]]], iterations: Sequence[int]
) -> bool:
    """Whether the same computations of a rank are slow in nearly all iterations.

    A core that is occupied now and then interrupts a different computation each time: over a few
    iterations, each may be slow for that reason.
    """
    lasting = {
        one: _lasting([own[iteration] for iteration in iterations]) for one, own in parts.items()
    }
    return _is_slow(lasting[rank], [ns for other, ns in lasting.items() if other != rank])


def _lasting(iterations: Sequence[Mapping[_Part, int]]) -> int:
    """The sum over computations of their minimum in nearly all iterations, ns."""
    place = int((1 - _MOST) * len(iterations))
    parts = {part for one in iterations for part in one}
    return sum(sorted(one.get(part, 0) for one in iterations)[place] for part in parts)


def _is_slow(own: int, others: Sequence[int]) -> bool:
    slowest = max(others)
    return own > _SLOWER * slowest and own - slowest > _LEAST_MS * _MS


def _since(common: Sequence[int], slow: Sequence[int]) -> int | None:
    """The first iteration from which a rank is slow in nearly all iterations."""
    for first in slow:
        later = [i for i in common if i >= first]
        often = [i for i in slow if i >= first]
        if len(later) >= _LEAST_ITERATIONS and len(often) >= _MOST * len(later):
            return first
    return None


def _slowest_unit(ranks: Sequence[RankTrace], rank: int, since: int) -> str:
    """The unit with the largest excess over the others; "" if there is no single one."""
    times: dict[int, dict[str, int]] = {}
    for one in ranks:
        own: dict[str, int] = defaultdict(int)
        for _, event in one.events.of_kind(Kind.COMPUTE):
            if event.iteration >= since and event.start_ns and event.end_ns:
                own[event.unit] += event.end_ns - event.start_ns
        times[one.rank] = own
    beyond = {
        unit: ns - max((t.get(unit, 0) for r, t in times.items() if r != rank), default=0)
        for unit, ns in times[rank].items()
    }
    total = sum(ns for ns in beyond.values() if ns > 0)
    first = max(beyond, key=lambda unit: beyond[unit], default="")
    return first if first and beyond[first] > total / 2 else ""


def _slow_link(ranks: Sequence[RankTrace]) -> list[Finding]:
    """Messages on one path that take longer than those on all others."""
    times = _message_times(ranks)
    for way, own in times.items():
        others = [ns for other, those in times.items() if other != way for ns in those.values()]
        if not others:
            continue
        usual = median(others)
        slow = sorted({i for (i, _), ns in own.items() if _is_late(ns, usual) and i > 0})
        common = sorted({i for i, _ in own})[1:]
        late = [ns for (i, _), ns in own.items() if slow and i >= slow[0]]
        if len(slow) < _LEAST_ITERATIONS or not late or not _is_late(median(late), usual):
            continue
        since = _since(common, slow)
        if since is None:
            continue
        source, target = way
        return [
            Finding(
                wrong=Wrong.SLOW_LINK,
                ranks=way,
                place=Place(iteration=since),
                sentence=wording.said(
                    "speed.link",
                    source=source,
                    target=target,
                    iteration=since,
                    late=f"{median(late) / _MS:.0f}",
                    usual=f"{usual / _MS:.1f}",
                ),
                advice=advice("network", source=source, target=target),
            )
        ]
    return []


def _is_late(ns: float, usual: float) -> bool:
    return ns > _LINK_SLOWER * usual and ns - usual > _LEAST_LINK_MS * _MS


def _message_times(
    ranks: Sequence[RankTrace],
) -> Mapping[tuple[int, int], dict[tuple[int, int], float]]:
    """Time from both ends' posting of a message to its arrival, by path: ns by iteration."""
    ends: dict[Op, dict[tuple[object, ...], tuple[int, int | None, int]]] = {
        Op.SEND: {},
        Op.RECEIVE: {},
    }
    for rank in ranks:
        counts: dict[tuple[object, ...], int] = defaultdict(int)
        for _, event in rank.events.of_kind(Kind.TRANSFER):
            call = None if event.parent is None else rank.events.find(event.parent)
            if call is None or event.start_ns is None or event.op is None:
                continue
            both = (rank.rank, event.peers[0])
            way = both if event.op is Op.SEND else both[::-1]
            key = (*way, call.group, call.sequence, event.hop)
            number = counts[(event.op, *key)]
            counts[(event.op, *key)] += 1
            ends[event.op][(*key, number)] = (event.start_ns, event.end_ns, event.iteration)
    found: dict[tuple[int, int], dict[tuple[int, int], float]] = defaultdict(dict)
    for number, (message, (sent, _, iteration)) in enumerate(ends[Op.SEND].items()):
        other = ends[Op.RECEIVE].get(message)
        if other is not None and other[1] is not None and iteration >= 0:
            source, target = message[:2]
            assert isinstance(source, int)
            assert isinstance(target, int)
            found[source, target][iteration, number] = other[1] - max(sent, other[0])
    return found
