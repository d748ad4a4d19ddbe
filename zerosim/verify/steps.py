"""Each iteration: planned, recorded and counted bytes of its ranks."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from zerosim.analysis.traffic import TracedCall, goes_over_sockets, traced_calls
from zerosim.analysis.tuning import tuning_of
from zerosim.base.errors import ConfigError, UnplannedError
from zerosim.record import PeerBytes, Peers, RankTrace, Trace, match_sockets, phase_wire
from zerosim.record.endings import over_times
from zerosim.schema.events import STEP_PHASES, Event, Phase, WireSample
from zerosim.schema.manifest import Source
from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import find
from zerosim.theory import Movement, Workload
from zerosim.theory.nccl import CHOSEN, Tuning
from zerosim.theory.programs import Held, Plan, in_force, plan_step, plan_zero
from zerosim.verify.attribution import RankStep, attribute
from zerosim.verify.configured import workload_of
from zerosim.verify.measure import counts_calls, outside_of
from zerosim.verify.meter import Meter, calls_by_iteration
from zerosim.verify.report import RankWire
from zerosim.verify.strategies import strategies_of


@dataclass(frozen=True, slots=True)
class TracedStep:
    """One iteration of all ranks.

    Attributes:
        wires, wires_received: bytes that the ranks sent and received, by trace and by kernel.
        wire_by_call: whether the kernel's counters were read around each call.
        is_told: whether the partitioning of training is known.
        outside: the kernel's count outside of all calls, by rank, if calls are counted separately;
            else the unexplained bytes of the iteration.
        unsettled: by rank, bytes that calls still had to send at the end of the iteration, if
            it is unknown when they were sent.
        tuning: the settings that were forced on NCCL, as far as the wire shows them.
    """

    iteration: int
    num_micro_steps: int
    ranks: tuple[RankStep, ...]
    wires: tuple[RankWire, ...]
    wires_received: tuple[RankWire, ...]
    wire_by_call: bool
    is_told: bool
    outside: tuple[int, ...]
    unsettled: tuple[int, ...] = ()
    tuning: Tuning = CHOSEN


class TracedSteps:
    """Constructs the steps of a trace."""

    def __init__(self, trace: Trace, strategies: Mapping[int, Sequence[Strategy]]) -> None:
        """Read the trace once.

        Args:
            strategies: by rank; empty for a program without strategies that resembles none.
        """
        self._trace, self._strategies = trace, strategies
        self._wire_by_call = counts_calls(trace)
        peers = match_sockets(trace)
        traced: dict[int, dict[int, TracedCall]] = {rank.rank: {} for rank in trace.ranks}
        for call in traced_calls(trace):
            traced[call.rank][call.event.id] = call
        is_imported = trace.manifest.source is Source.IMPORTED
        self._tuning = tuning_of(trace, peers)
        self._meters = {
            rank.rank: Meter(rank, traced[rank.rank], self._tuning, is_imported=is_imported)
            for rank in trace.ranks
        }
        # without labels it is not known which phases belong to a step
        phases = STEP_PHASES if strategies or trace.manifest.config else tuple(Phase)
        self._outside = {rank.rank: outside_of(rank, peers, phases) for rank in trace.ranks}
        self._calls = {rank.rank: calls_by_iteration(rank) for rank in trace.ranks}
        self._wires = {
            rank.rank: _wire_by_iteration(rank, peers)
            for rank in trace.ranks
            if goes_over_sockets(rank, peers, traced[rank.rank].values())
        }
        self._open_ended = {
            rank.rank
            for rank in trace.ranks
            if None in map(over_times(rank), (one.event for one in traced[rank.rank].values()))
        }
        self._late = {rank.rank: _most_after(rank, traced[rank.rank]) for rank in trace.ranks}
        self._early = {rank.rank: _most_before(rank, traced[rank.rank]) for rank in trace.ranks}
        self._num_micro_steps = {rank.rank: _micro_steps(rank) for rank in trace.ranks}
        self._plans: dict[tuple[int, ...], tuple[Plan, ...]] = {}

    def all_of(self, iterations: Iterable[int]) -> Iterator[TracedStep]:
        """Iterations in order, each with the traffic of calls outside of their own iteration.

        The kernel counts a call that is pending at the end of its iteration in the next one, and
        one that another thread makes during the reading of the counters in the previous one. A
        deficit or excess of an iteration is such traffic, up to the size of these calls: it is
        carried over until it arrives or the call is made; anything beyond is unexplained.
        """
        owed: dict[int, int] = defaultdict(int)
        before = -1
        for iteration in iterations:
            if iteration != before + 1:
                owed.clear()
            step, before = self._of(iteration), iteration
            if step.is_told and not step.wire_by_call:
                step = self._with_under_way(step, owed)
            yield step

    def _with_under_way(self, step: TracedStep, owed: dict[int, int]) -> TracedStep:
        wires = []
        for wire in step.wires:
            late = self._late[wire.rank].get(step.iteration, 0)
            early = self._early[wire.rank].get(step.iteration + 1, 0)
            came, was_owed = wire.unexplained or 0, owed[wire.rank]
            owed[wire.rank] = min(max(was_owed - came, -early), late)
            wires.append(replace(wire, under_way=was_owed - owed[wire.rank]))
        outside = tuple(wire.unexplained or 0 for wire in wires)
        unsettled = tuple(owed[wire.rank] * (wire.rank in self._open_ended) for wire in wires)
        return replace(step, wires=tuple(wires), outside=outside, unsettled=unsettled)

    def _of(self, iteration: int) -> TracedStep:
        """One iteration by itself."""
        counts = {rank: of.get(iteration, 1) for rank, of in self._num_micro_steps.items()}
        count = max(counts.values(), default=1)
        held = {  # a rank without data may have skipped one
            rank: in_force(rows, iteration, counts.get(rank, count))
            for rank, rows in self._strategies.items()
        }
        workload = workload_of(self._trace, iteration)
        found = [self._of_rank(rank, held, iteration, workload) for rank in self._trace.ranks]
        counted = [self._wires.get(step.rank, {}).get(iteration) for step in found]
        sent, received = (
            tuple(_wire(step, wire, way) for step, wire in zip(found, counted, strict=True))
            for way in (0, 1)
        )
        return TracedStep(
            iteration,
            count if workload is None else workload.config.accumulate,
            tuple(found),
            sent,
            received,
            self._wire_by_call,
            workload is not None or bool(self._strategies),
            tuple(self._outside[step.rank].get(iteration, 0) for step in found),
            tuning=self._tuning,
        )

    def _of_rank(
        self,
        rank: RankTrace,
        held: Mapping[int, Sequence[Held]],
        iteration: int,
        workload: Workload | None,
    ) -> RankStep:
        problems: tuple[str, ...] = ()
        unplanned = ""
        plans: tuple[Plan, ...] = ()
        try:
            if workload is not None:
                plans = (plan_zero(workload, rank.rank),)
            elif held:
                plans = self._plan(rank.rank, held, iteration)
        except UnplannedError as error:
            unplanned = str(error)
        except ConfigError as error:
            problems = (f"rank {rank.rank}: {error}",)
        events = self._calls[rank.rank].get(iteration, ())
        found = attribute(
            self._meters[rank.rank], events, plans, held.get(rank.rank, ()), unplanned
        )
        return replace(found, unknown=(*problems, *found.unknown))

    def _plan(
        self, rank: int, held: Mapping[int, Sequence[Held]], iteration: int
    ) -> tuple[Plan, ...]:
        """The planned calls of a rank; computed once while the same strategies are in force."""
        every = [steps for mine in held.values() for steps in mine]
        key = (rank, *(id(one) for steps in every for one in steps))
        known = [find(steps[-1].system) for steps in every]
        if any(system is not None and system.remembers for system in known):
            key = (*key, iteration)
        if key not in self._plans:
            self._plans[key] = plan_step(held, rank, iteration, self._strategies[rank])
        return self._plans[key]


def planned_calls(trace: Trace, iteration: int) -> dict[tuple[int, int], Movement]:
    """The planned properties of a call or copy in an iteration, by rank and id of its event.

    Calls without a plan are omitted.
    """
    step = next(TracedSteps(trace, strategies_of(trace)).all_of([iteration]))
    return {
        (rank.rank, one.event): one.planned
        for rank in step.ranks
        for one in rank.calls
        if one.planned is not None
    }


def _wire(step: RankStep, counted: PeerBytes | None, way: int) -> RankWire:
    """Bytes that a rank sent (0) or received (1)."""
    calls = [one for one in step.calls if one.call.op is not None]
    name = ("sent_bytes", "received_bytes")[way]
    trace = sum(getattr(one.share.asked, name) for one in calls)
    return RankWire(
        rank=step.rank,
        trace=trace,
        algorithm=sum(getattr(one.share.moved, name) for one in calls) - trace,
        framing=None if step.framing is None else step.framing[way],
        wire=None if counted is None else getattr(counted, name),
    )


def _micro_steps(rank: RankTrace) -> dict[int, int]:
    """Forwards with a backward of a rank in each iteration, from events and counters."""
    counts: dict[int, int] = {}
    moments: tuple[Event | WireSample, ...] = (*rank.events, *rank.wire_samples)
    for moment in moments:
        if moment.phase in (Phase.FORWARD, Phase.BACKWARD):
            known = counts.get(moment.iteration, 1)
            counts[moment.iteration] = max(known, moment.micro_step + 1)
    return counts


def _wire_by_iteration(rank: RankTrace, peers: Peers) -> dict[int, PeerBytes]:
    """The kernel's counts between the borders of each iteration."""
    found: dict[int, PeerBytes] = defaultdict(PeerBytes)
    for piece in phase_wire(rank, peers):
        found[piece.iteration] += PeerBytes(piece.sent_bytes, piece.received_bytes)
    return dict(found)


def _begins(rank: RankTrace) -> dict[int, int]:
    """The time of the reading with which an iteration begins."""
    begins: dict[int, int] = {}
    for sample in rank.wire_samples:
        begins.setdefault(sample.iteration, sample.time_ns)
    return begins


def _most_before(rank: RankTrace, calls: Mapping[int, TracedCall]) -> dict[int, int]:
    """Maximum bytes of calls made during the reading of the counters, by iteration."""
    begins = _begins(rank)
    found: dict[int, int] = defaultdict(int)
    for call in calls.values():
        event = call.event
        if event.parent is None and event.issue_ns < begins.get(event.iteration, 0):
            found[event.iteration] += _size(call)
    return found


def _most_after(rank: RankTrace, calls: Mapping[int, TracedCall]) -> dict[int, int]:
    """Maximum remaining bytes of calls pending at the end of an iteration, by iteration."""
    begins, over_ns = _begins(rank), over_times(rank)
    order = sorted(begins)
    times = [begins[iteration] for iteration in order]
    changes = [0] * (len(order) + 1)
    for call in calls.values():
        event = call.event
        place = bisect_left(order, event.iteration)
        # a call without an end may send at any time
        end_ns = over_ns(event)
        last = len(order) if end_ns is None else bisect_left(times, end_ns) - 1
        if event.parent is None and place < last:
            size = _size(call)
            changes[place] += size
            changes[last] -= size
    return dict(zip(order, accumulate(changes), strict=False))


def _size(call: TracedCall) -> int:
    """The kernel's count for a sent call; 0 if unknown."""
    share = call.whole
    return share.moved.sent_bytes + (share.framing or (0, 0))[0]
