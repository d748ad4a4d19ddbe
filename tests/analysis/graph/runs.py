"""Runs of a ring as a rank would record them, simulated: every time is known and can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.strategies import Row, Written, header, manifest
from zerosim.schema.events import (
    Algorithm,
    Close,
    Event,
    Group,
    Kind,
    Op,
    Phase,
    Purpose,
    Transfer,
    WireSample,
)
from zerosim.schema.manifest import BucketLayout, Segment, UnitLayout

Duration = Callable[[int, str, Phase], int]
"""What a unit takes on a rank in a phase, ns."""
SOURCES = {
    Op.ALL_GATHER: "model.py:10 in forward",
    Op.REDUCE_SCATTER: "train.py:20 in step",
    Op.ALL_REDUCE: "train.py:30 in step",
}


def steady(*_: object) -> int:
    """Every computation takes as long."""
    return 1000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is run.

    Attributes:
        stage: 1 or 3.
        compute_ns: how long a unit computes.
        hop_ns: one message.
        gap_ns: the program's own code before each thing that it does.
        handover_ns: until the collectives' thread takes up what was asked for.
        wake_ns: until a wait that is over is left.
        hosts: by rank; all of one by default.
        shift_ns: by host, what its clock shows more than the first one's.
    """

    num_ranks: int = 2
    units: tuple[str, ...] = ("embedding", "block")
    iterations: int = 2
    stage: int = 3
    overlap: bool = True
    compute_ns: Duration = steady
    hop_ns: int = 100
    gap_ns: int = 10
    handover_ns: int = 5
    wake_ns: int = 5
    hosts: tuple[str, ...] = ()
    shift_ns: dict[str, int] = field(default_factory=dict)
    payload_bytes: int = 4096


@dataclass
class _Begun:
    """One event of a rank with its times; ids follow the order in which things began."""

    kind: Kind
    begin_ns: int
    end_ns: int
    fields: dict[str, Any]
    parent: _Begun | None = None
    id: int = -1


@dataclass
class _Asked:
    """A collective that was asked for: when it was over, and its event, by rank."""

    end_ns: list[int]
    events: list[_Begun]


class _Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ranks = range(plan.num_ranks)
        self.main = [1000] * plan.num_ranks
        self.free = [0] * plan.num_ranks
        self.sequence = 0
        self.begun: list[list[_Begun]] = [[] for _ in self.ranks]
        self.samples: list[list[WireSample]] = [[] for _ in self.ranks]
        self.iteration, self.phase = -1, Phase.OUTSIDE

    def enter(self, iteration: int, phase: Phase) -> None:
        self.iteration, self.phase = iteration, phase
        for rank in self.ranks:
            self.main[rank] += self.plan.gap_ns
            self.samples[rank].append(
                WireSample(
                    iteration=iteration,
                    micro_step=0,
                    phase=phase,
                    time_ns=self.main[rank],
                    counters=(),
                )
            )

    def compute(self, unit: str) -> None:
        for rank in self.ranks:
            begin = self.main[rank] + self.plan.gap_ns
            end = begin + self.plan.compute_ns(rank, unit, self.phase)
            self._add(rank, Kind.COMPUTE, begin, end, unit=unit, issue_ns=begin)
            self.main[rank] = end

    def ask(self, op: Op, unit: str, purpose: Purpose) -> _Asked | None:
        plan, size = self.plan, self.plan.num_ranks
        if size == 1:
            return None
        for rank in self.ranks:
            self.main[rank] += plan.gap_ns
        issue = list(self.main)
        start = [max(i, f) + plan.handover_ns for i, f in zip(issue, self.free, strict=True)]
        calls = [
            self._add(
                rank, Kind.COLLECTIVE, start[rank], 0, unit=unit, purpose=purpose, op=op,
                algorithm=Algorithm.RING, group="world", sequence=self.sequence,
                peers=tuple(sorted({(rank - 1) % size, (rank + 1) % size})), dtype="bfloat16",
                elements=plan.payload_bytes // 2, payload_bytes=plan.payload_bytes,
                issue_ns=issue[rank], source=SOURCES[op],
            )
            for rank in self.ranks
        ]  # fmt: skip
        self.sequence += 1
        ready = self._rotate(calls, start, 0 if op is Op.ALL_GATHER else -1)
        if op is Op.ALL_REDUCE:
            self._rotate(calls, ready, 0, size - 1)
        for rank, call in enumerate(calls):
            self.free[rank] = call.end_ns
        asked = _Asked([call.end_ns for call in calls], calls)
        if not plan.overlap:
            self.wait(asked, since=issue)
        return asked

    def _rotate(
        self, calls: list[_Begun], ready: list[int], first: int, first_hop: int = 0
    ) -> list[int]:
        """Pass shards around once; rank r begins with shard r + first."""
        size = self.plan.num_ranks
        size_bytes = self.plan.payload_bytes // size
        for hop in range(size - 1):
            arrived = [max(ready[rank - 1], ready[rank]) + self.plan.hop_ns for rank in self.ranks]
            for rank, call in enumerate(calls):
                for op, peer, shard, over in (
                    (
                        Op.SEND,
                        (rank + 1) % size,
                        (rank + first - hop) % size,
                        arrived[(rank + 1) % size],
                    ),
                    (Op.RECEIVE, (rank - 1) % size, (rank + first - hop - 1) % size, arrived[rank]),
                ):
                    message = {
                        "op": op, "peer": peer, "elements": size_bytes // 2,
                        "payload_bytes": size_bytes, "hop": first_hop + hop, "shard": shard,
                    }  # fmt: skip
                    begun = _Begun(Kind.TRANSFER, ready[rank], over, message, call)
                    self.begun[rank].append(begun)
            ready = arrived
        for rank, call in enumerate(calls):
            call.end_ns = max(ready[rank], ready[(rank + 1) % size])
        return ready

    def wait(self, asked: _Asked | None, since: list[int] | None = None) -> None:
        if asked is None or (since is None and not self.plan.overlap):
            return
        for rank in self.ranks:
            begin = self.main[rank] + self.plan.gap_ns if since is None else since[rank]
            if begin >= asked.end_ns[rank]:
                continue
            end = asked.end_ns[rank] + self.plan.wake_ns
            wait = self._add(rank, Kind.WAIT, begin, end, issue_ns=begin)
            wait.parent = asked.events[rank]
            self.main[rank] = end

    def _add(self, rank: int, kind: Kind, begin: int, end: int, **fields: Any) -> _Begun:
        fields |= {"iteration": self.iteration, "phase": self.phase}
        begun = _Begun(kind, begin, end, fields)
        self.begun[rank].append(begun)
        return begun

    def train(self) -> None:
        plan = self.plan
        for iteration in range(plan.iterations):
            self.enter(iteration, Phase.FORWARD)
            self._pass(plan.units)
            self.enter(iteration, Phase.BACKWARD)
            self._pass(plan.units[::-1])
            self.enter(iteration, Phase.UPDATE)
            gathers = []
            for unit in plan.units:
                self.compute(unit)
                if plan.stage == 1:
                    gathers.append(self.ask(Op.ALL_GATHER, unit, Purpose.GATHER_PARAMETERS))
            for gather in gathers:
                self.wait(gather)
            self.enter(iteration, Phase.OUTSIDE)

    def _pass(self, units: tuple[str, ...]) -> None:
        """Forward or backward, with one unit gathered ahead and one reduction on its way."""
        gathers: dict[str, _Asked | None] = {}
        reduction: _Asked | None = None
        for place, unit in enumerate(units):
            if self.plan.stage == 3:
                for ahead in units[place : place + 2]:
                    if ahead not in gathers:
                        gathers[ahead] = self.ask(Op.ALL_GATHER, ahead, Purpose.GATHER_PARAMETERS)
                self.wait(gathers[unit])
            self.compute(unit)
            if self.phase is Phase.BACKWARD:
                self.wait(reduction)
                reduction = self.ask(Op.REDUCE_SCATTER, unit, Purpose.REDUCE_GRADIENTS)
        self.wait(reduction)

    def rows(self, rank: int) -> list[Row]:
        plan = self.plan
        host = plan.hosts[rank] if plan.hosts else "box"
        shift = plan.shift_ns.get(host, 0)
        begun = self.begun[rank]
        # a wait is written, and gets its id, when it is over
        begun.sort(key=lambda one: one.end_ns if one.kind is Kind.WAIT else one.begin_ns)
        for number, one in enumerate(begun):
            one.id = number
        timed: list[tuple[int, Row]] = [
            (sample.time_ns, ("wire", replace(sample, time_ns=sample.time_ns + shift)))
            for sample in self.samples[rank]
        ]
        for one in begun:
            timed += _rows(one, rank, shift)
        timed.sort(key=lambda row: row[0])
        group = Group(name="world", backend="gloo", ranks=tuple(self.ranks))
        first = replace(header(rank, plan.num_ranks, host), clock_ns=shift)
        return [("header", first), ("group", group), *(row for _, row in timed)]


def _rows(one: _Begun, rank: int, shift: int) -> Iterator[tuple[int, Row]]:
    begin, end = one.begin_ns + shift, one.end_ns + shift
    if one.kind is Kind.TRANSFER:
        assert one.parent is not None
        transfer = Transfer(
            id=one.id, parent=one.parent.id, start_ns=begin, end_ns=end, **one.fields
        )
        yield one.end_ns, ("transfer", transfer)
        return
    fields = one.fields | {"issue_ns": one.fields["issue_ns"] + shift}
    event = Event(id=one.id, rank=rank, kind=one.kind, **fields)
    if one.kind is Kind.WAIT:
        assert one.parent is not None
        event = replace(event, parent=one.parent.id, start_ns=begin, end_ns=end)
        yield one.end_ns, ("event", event)
        return
    yield one.begin_ns, ("open", event)
    yield one.end_ns, ("close", Close(id=one.id, start_ns=begin, end_ns=end))


def record(plan: Plan) -> Written:
    """What all ranks record."""
    run = _Run(plan)
    run.train()
    elements = plan.payload_bytes // 2
    return Written(
        manifest=replace(
            manifest(plan.num_ranks),
            config={"stage": plan.stage},
            units=tuple(
                UnitLayout(name=unit, elements=elements, padded_elements=elements, trainable=True)
                for unit in plan.units
            ),
            buckets=tuple(
                BucketLayout(name=unit, segments=(Segment(unit=unit, start=0, stop=elements),))
                for unit in plan.units
            ),
        ),
        rows={rank: run.rows(rank) for rank in run.ranks},
    )
