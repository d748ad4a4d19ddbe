"""Traces of programs as their plans say, on two ranks, with a wire that counts the same: exact."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.strategies import Row, Written, header, manifest, trace_files, write_files
from zerosim.schema.events import (
    Algorithm,
    Event,
    Group,
    Kind,
    Op,
    Phase,
    Purpose,
    Socket,
    WireDelta,
    WireSample,
)
from zerosim.theory import Movement, framing
from zerosim.theory.programs import in_force, plan_step

if TYPE_CHECKING:
    from pathlib import Path

    from zerosim.record import Trace
    from zerosim.schema.strategies import Strategy

from zerosim.record import load
from zerosim.schema.memory import Holding, MemorySample, Moment, Role

RANKS = (0, 1)
STEPS = 2
SOURCE = "train.py:7 in step"


class Program:
    """What two ranks do: first as planned, then as a test changes it.

    Attributes:
        backend: of the group; its wire is Gloo's in any case.
        computations: of the last iteration, as (rank, start, end).
        is_early: the first call of the last iteration is made while that one's counters are read.
    """

    def __init__(
        self, *strategies: Strategy, by_rank: dict[int, tuple[Strategy, ...]] | None = None
    ):
        self.strategies = by_rank or dict.fromkeys(RANKS, strategies)
        self.calls: dict[tuple[int, int], list[tuple[Movement, dict]]] = {}
        self.backend = "gloo"
        self.extra_wire_bytes = 0
        self.parameter_bytes = 0
        self.computations: list[tuple[int, int, int]] = []
        self.micro_steps = 1
        self.is_early = False
        for iteration in range(STEPS):
            held = {r: in_force(self.strategies[r], iteration, 1) for r in RANKS}
            for rank in RANKS:
                plans = plan_step(held, rank, iteration, self.strategies[rank])
                self.calls[iteration, rank] = [
                    (replace(call, times=1), {})
                    for plan in plans
                    for call in plan.calls
                    for _ in range(call.times)
                ]

    def add(self, iteration: int, call: Movement, ranks: tuple[int, ...] = RANKS, **fields):
        """Let ranks make one more call."""
        for rank in ranks:
            self.calls[iteration, rank].append((call, fields))

    def drop(self, iteration: int, place: int, ranks: tuple[int, ...] = RANKS):
        """Let ranks leave a call out."""
        for rank in ranks:
            del self.calls[iteration, rank][place]

    def change(self, iteration: int, place: int, **fields):
        """Let both ranks make another call in place of one."""
        for rank in RANKS:
            call, more = self.calls[iteration, rank][place]
            self.calls[iteration, rank][place] = (replace(call, **fields), more)

    def written(self) -> Written:
        """What its ranks say."""
        rows = {rank: list(self._rows(rank)) for rank in RANKS}
        made = replace(manifest(len(RANKS)), config={}, program="train.py", backend=self.backend)
        return Written(made, rows)

    def write(self, folder: Path) -> Trace:
        """The trace, loaded."""
        return load(write_files(folder, trace_files(self.written())))

    def _rows(self, rank: int):
        yield "header", header(rank, len(RANKS))
        yield "group", Group(name="world", backend=self.backend, ranks=RANKS)
        ends = ("10.0.0.1:1", "10.0.0.2:2")
        yield "socket", Socket(index=0, local=ends[rank], remote=ends[1 - rank])
        for strategy in self.strategies[rank]:
            yield "strategy", strategy
        if self.parameter_bytes:
            yield (
                "memory",
                MemorySample(
                    number=0,
                    event=None,
                    moment=Moment.PHASE,
                    iteration=0,
                    micro_step=0,
                    phase=Phase.FORWARD,
                    time_ns=0,
                    changes=(Holding(Role.PARAMETERS, "", self.parameter_bytes),),
                ),
            )
        for place, (owner, start, end) in enumerate(self.computations):
            if owner == rank:
                yield "event", _computation(rank, 1000 + place, start, end)
        number = sent = received = 0
        sequence = 0
        for iteration in range(STEPS):
            early = self.is_early and iteration == STEPS - 1
            if not early:
                yield _sample(iteration, Phase.FORWARD, number, sent, received)
            for call, fields in self.calls[iteration, rank]:
                event = _event(rank, iteration, number, call, sequence)
                event = replace(event, algorithm=Algorithm(self.backend), **fields)
                yield "event", event
                number += 1
                sequence += event.sequence is not None
                cost = call.cost(rank, Algorithm.GLOO)
                added = framing("gloo", cost)
                assert added is not None
                sent += cost.sent_bytes + added.sent_bytes
                received += cost.received_bytes + added.received_bytes
                if early:
                    yield _sample(iteration, Phase.FORWARD, number, sent, received)
                    early = False
            sent += self.extra_wire_bytes
            received += self.extra_wire_bytes
            yield _sample(iteration, Phase.OUTSIDE, number, sent, received)


def _computation(rank: int, number: int, start: int, end: int) -> Event:
    return Event(
        id=number,
        rank=rank,
        kind=Kind.COMPUTE,
        iteration=STEPS - 1,
        phase=Phase.FORWARD,
        unit="stage",
        issue_ns=start,
        start_ns=start,
        end_ns=end,
    )


def _sample(iteration: int, phase: Phase, time: int, sent: int, received: int) -> Row:
    return (
        "wire",
        WireSample(
            iteration=iteration,
            micro_step=0,
            phase=phase,
            time_ns=time,
            counters=(WireDelta(0, sent, received),),
        ),
    )


def _event(rank: int, iteration: int, number: int, call: Movement, sequence: int) -> Event:
    is_message = call.op in (Op.SEND, Op.RECEIVE)
    size = call.payload_bytes
    return Event(
        id=number,
        rank=rank,
        kind=Kind.COLLECTIVE,
        iteration=iteration,
        phase=call.phase,
        unit=call.unit,
        purpose=call.purpose,
        op=call.op,
        algorithm=Algorithm.GLOO,
        group="world",
        sequence=None if is_message else sequence,
        peers=() if call.root is None else (call.root,),
        dtype="float32",
        elements=call.elements,
        payload_bytes=size,
        sent_bytes=(size if call.op is Op.SEND else 0) if is_message else None,
        received_bytes=(size if call.op is Op.RECEIVE else 0) if is_message else None,
        issue_ns=number,
        start_ns=number,
        end_ns=number + 1,
        source=SOURCE,
    )


def own_call(op: Op = Op.ALL_REDUCE, elements: int = 1, **fields) -> Movement:
    """A call that no framework made."""
    usual = {"phase": Phase.BACKWARD, "purpose": Purpose.UNLABELLED, "ranks": RANKS}
    return Movement(op=op, elements=elements, element_bytes=4, **usual | fields)
