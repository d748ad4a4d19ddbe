"""Each iteration of a program: what its ranks were to call, what they called, what the kernel saw.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Event, Phase, WireSample
from zerosim.record import PeerBytes, Peers, RankTrace, Trace, match_sockets, phase_wire
from zerosim.strategies import Strategy, System
from zerosim.theory.programs import Held, Plan, in_force, plan_step
from zerosim.verify.attribution import RankStep, attribute, calls_by_iteration
from zerosim.verify.program_report import RankWire


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One iteration of all ranks.

    Attributes:
        wires, wires_received: what the ranks sent and received, by trace and by kernel.
    """

    iteration: int
    num_micro_steps: int
    ranks: tuple[RankStep, ...]
    wires: tuple[RankWire, ...]
    wires_received: tuple[RankWire, ...]


class Steps:
    """Makes the steps of a trace."""

    def __init__(
        self, trace: Trace, strategies: Mapping[int, Sequence[Strategy]], algorithm: Algorithm
    ) -> None:
        """Prepare.

        Args:
            strategies: by rank.
            algorithm: who carries native calls out.
        """
        self._trace, self._strategies, self._algorithm = trace, strategies, algorithm
        peers = match_sockets(trace)
        self._calls = {rank.rank: calls_by_iteration(rank) for rank in trace.ranks}
        self._wires = {rank.rank: _wire_by_iteration(rank, peers) for rank in trace.ranks}
        self._num_micro_steps = _micro_steps(trace)
        self._plans: dict[tuple[int, ...], tuple[Plan, ...]] = {}

    def of(self, iteration: int) -> ProgramStep:
        """One iteration."""
        count = self._num_micro_steps.get(iteration, 1)
        held = {rank: in_force(rows, iteration, count) for rank, rows in self._strategies.items()}
        found = [self._of_rank(rank, held, iteration) for rank in self._trace.ranks]
        wires = [self._wires[step.rank].get(iteration) for step in found]
        pairs = list(zip(found, wires, strict=True))
        return ProgramStep(
            iteration,
            count,
            tuple(found),
            tuple(_sent(step, wire) for step, wire in pairs),
            tuple(_received(step, wire) for step, wire in pairs),
        )

    def _of_rank(
        self, rank: RankTrace, held: Mapping[int, Sequence[Held]], iteration: int
    ) -> RankStep:
        problems: tuple[str, ...] = ()
        plans: tuple[Plan, ...] = ()
        try:
            plans = self._plan(rank.rank, held, iteration)
        except ConfigError as error:
            problems = (f"rank {rank.rank}: {error}",)
        events = self._calls[rank.rank].get(iteration, ())
        found = attribute(rank, events, plans, held[rank.rank], self._algorithm)
        return replace(found, unknown=(*problems, *found.unknown))

    def _plan(
        self, rank: int, held: Mapping[int, Sequence[Held]], iteration: int
    ) -> tuple[Plan, ...]:
        """What a rank is to call; worked out once as long as the same strategies hold."""
        every = [steps for mine in held.values() for steps in mine]
        key = (rank, *(id(one) for steps in every for one in steps))
        # what DeepSpeed's stage 3 does depends on what it did before
        if any(steps[-1].system is System.DEEPSPEED for steps in every):
            key = (*key, iteration)
        if key not in self._plans:
            self._plans[key] = plan_step(held, rank, iteration, self._strategies[rank])
        return self._plans[key]


def _sent(step: RankStep, wire: PeerBytes | None) -> RankWire:
    return RankWire(
        rank=step.rank,
        trace=sum(call.cost.sent_bytes for call in step.calls),
        framing=step.framing_sent,
        wire=None if wire is None else wire.sent_bytes,
    )


def _received(step: RankStep, wire: PeerBytes | None) -> RankWire:
    return RankWire(
        rank=step.rank,
        trace=sum(call.cost.received_bytes for call in step.calls),
        framing=step.framing_received,
        wire=None if wire is None else wire.received_bytes,
    )


def _micro_steps(trace: Trace) -> dict[int, int]:
    """Forwards with a backward in each iteration: what events and counters say."""
    counts: dict[int, int] = defaultdict(lambda: 1)
    for rank in trace.ranks:
        moments: tuple[Event | WireSample, ...] = (*rank.events, *rank.wire_samples)
        for moment in moments:
            if moment.phase in (Phase.FORWARD, Phase.BACKWARD):
                known = counts[moment.iteration]
                counts[moment.iteration] = max(known, moment.micro_step + 1)
    return counts


def _wire_by_iteration(rank: RankTrace, peers: Peers) -> dict[int, PeerBytes]:
    """What the kernel counted between the borders of each iteration; empty if it was not asked."""
    found: dict[int, PeerBytes] = defaultdict(PeerBytes)
    if rank.header.device != "cpu":
        return {}
    for piece in phase_wire(rank, peers):
        found[piece.iteration] += PeerBytes(piece.sent_bytes, piece.received_bytes)
    return dict(found)
