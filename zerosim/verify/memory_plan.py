"""The model states that a run should keep, by the law of its system."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from zerosim.analysis.memory import Timeline, updates_begin
from zerosim.base.tiers import Tier
from zerosim.record import Trace
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.schema.strategies import HAND_WRITTEN, Strategy
from zerosim.theory import ModelStates, Workload, zero_states
from zerosim.theory.model_states import Kept
from zerosim.theory.programs import in_force, program_states
from zerosim.theory.programs.options import record_lists
from zerosim.verify.configured import workload_of
from zerosim.verify.strategies import strategies_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The memory that each rank should keep.

    Attributes:
        of_ranks: model states, by rank; at least one.
        earlier: model states of earlier iterations that differ from the last one: other
            parameters had gradients, optimizers had not stepped yet, or other models were trained.
        workload: the workload of zerosim's engine, whose temporary memory is known as well;
            None for other programs.
    """

    of_ranks: Mapping[int, ModelStates]
    earlier: Mapping[int, Mapping[int, ModelStates]] = field(default_factory=dict)
    workload: Workload | None = None

    @property
    def first(self) -> ModelStates:
        """The plan of the first rank: the law is the same for all."""
        return next(iter(self.of_ranks.values()))

    def of(self, iteration: int | None) -> ModelStates:
        """The model states of each rank in an iteration, by default the last."""
        return self.first if iteration is None else self.at(next(iter(self.of_ranks)), iteration)

    def at(self, rank: int, iteration: int) -> ModelStates:
        """The model states that a rank should keep when an iteration's update begins."""
        return self.earlier.get(iteration, self.of_ranks)[rank]

    @property
    def law(self) -> str:
        """The law of the device in words; "" if the law does not cover all model states."""
        return "" if self.first.unknown else self.first.law()

    def ranks_differ(self, tier: Tier) -> bool:
        """Whether some ranks keep more in a tier than others."""
        return len({states.deviations(tier) for states in self.of_ranks.values()}) > 1


def plan_of(
    trace: Trace, lines: Mapping[int, Timeline], complete: Sequence[int]
) -> MemoryPlan | None:
    """The memory that the ranks of a trace should keep; None if no law is known.

    Args:
        lines: memory of the device, by rank. The states of a program's optimizer are read there, so
            without lines only the engine's law is known.
        complete: iterations that all ranks finished.
    """
    workload = workload_of(trace, 0)
    if workload is None:
        return _program_plan(trace, lines, complete)
    skipped = {one.iteration for one in trace.ranks[0].metrics if one.name == "overflow"}
    first = next(number for number in count() if number not in skipped)
    of_ranks = {
        rank.rank: zero_states(workload, rank.rank, first_update=first) for rank in trace.ranks
    }
    return MemoryPlan(of_ranks=of_ranks, workload=workload)


def _program_plan(
    trace: Trace, lines: Mapping[int, Timeline], complete: Sequence[int]
) -> MemoryPlan | None:
    """The optimizer's states: the trace has their names, but not their size."""
    if not complete or not lines:
        return None
    last = complete[-1]
    now = {rank: _last(of_rank, last) for rank, of_rank in strategies_of(trace).items()}
    systems = {one.system for of_rank in now.values() for one in of_rank}
    if not now or not all(now.values()) or HAND_WRITTEN in systems or set(lines) - set(now):
        return None
    seen: set[Role] = set()
    for line in lines.values():
        state = line.at(updates_begin(line, [last])[last])
        seen |= {role for role, _ in state if role in OPTIMIZER_STATES}
    known = _states(now, lines, seen, complete[0])
    if known is None:
        return None
    names = {rank: _names(held) for rank, held in now.items()}
    earlier: dict[int, Mapping[int, ModelStates]] = {}
    for iteration in complete[:-1]:
        then = {rank: _last(of_rank, iteration) for rank, of_rank in strategies_of(trace).items()}
        is_known = names == {rank: _names(held) for rank, held in then.items()} or all(
            _tells_of_all(one) for held in then.values() for one in held
        )
        states = _states(then, lines, seen, complete[0]) if is_known and then != now else None
        if states is not None:
            earlier[iteration] = {
                rank: _as_then(known[rank], kept, iteration) for rank, kept in states.items()
            }
    return MemoryPlan(of_ranks=known, earlier=earlier)


def _as_then(now: ModelStates, then: ModelStates, iteration: int) -> ModelStates:
    """What a rank keeps in an earlier iteration, by the last one's law if models are the same.

    An optimizer that had not stepped yet had no states.
    """
    if [_kind(part) for part in now.parts] != [_kind(part) for part in then.parts]:
        return then
    parts = []
    for part, before in zip(now.parts, then.parts, strict=True):
        if part.role not in OPTIMIZER_STATES:
            parts.append(before)
        elif before.kept or not part.kept:
            parts.append(replace(part, kept=before.kept))
        else:
            parts.append(replace(part, since=max(part.since, iteration + 1)))
    return replace(then, parts=tuple(parts))


def _tells_of_all(strategy: Strategy) -> bool:
    """Whether no evaluated model has a system that is known only later."""
    return all(record_lists(strategy, "models").values())


def _names(strategies: Sequence[Strategy]) -> set[tuple[str, str]]:
    return {(one.system, one.name) for one in strategies}


def _kind(part: Kept) -> tuple[object, ...]:
    """The fields of a part that are the same in all iterations."""
    of_states = part.role in OPTIMIZER_STATES
    return part.role, part.element_bytes, part.among, None if of_states else part.elements


def _states(
    now: Mapping[int, Sequence[Strategy]],
    ranks: Iterable[int],
    seen: Collection[Role],
    first_update: int,
) -> dict[int, ModelStates] | None:
    """What each rank keeps under these strategies; None if it is unknown for any rank."""
    found = {rank: program_states(now, rank, seen, first_update=first_update) for rank in ranks}
    known = {rank: one for rank, one in found.items() if one is not None}
    return known if len(known) == len(found) else None


def _last(strategies: Sequence[Strategy], iteration: int) -> tuple[Strategy, ...]:
    """The strategies in force in the last micro-step of an iteration."""
    steps = [one.micro_step for one in strategies if one.iteration == iteration]
    return tuple(held[-1] for held in in_force(strategies, iteration, max(steps, default=0) + 1))
