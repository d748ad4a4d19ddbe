"""All strategies of a rank together: the calls of each in one optimizer step.

Each system makes its own plan. Its axis determines its effect on other plans: one that shards
single parameters leaves smaller parts to the others, a pipeline reduces once per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import UnplannedError
from zerosim.base.quantities import PSI
from zerosim.schema.events import Phase
from zerosim.schema.strategies import HAND_WRITTEN, Strategy
from zerosim.systems.registry import Axis, System, axis_of, find, understood
from zerosim.theory.programs.options import parameters_of, text
from zerosim.theory.programs.parts import local_parameters
from zerosim.theory.programs.plan import Plan
from zerosim.theory.wording import said

Held = tuple[Strategy, ...]
"""One strategy in each micro-step of an iteration."""


def in_force(rows: Sequence[Strategy], iteration: int, num_micro_steps: int) -> tuple[Held, ...]:
    """The strategies in force in an iteration, for each micro-step.

    Args:
        rows: of one rank, in the order of writing. A row takes the place of earlier ones of the
            same system and name, from its iteration and micro-step on.
        num_micro_steps: 1 or more.
    """
    named: dict[tuple[str, str], list[Strategy]] = {}
    for row in rows:
        named.setdefault((row.system, row.name), []).append(row)
    found = []
    for history in named.values():
        held = [row_at(history, (iteration, number)) for number in range(num_micro_steps)]
        known = [one for one in held if one is not None]
        if known:
            found.append(tuple(one or _before(known[0]) for one in held))
    return tuple(found)


def _before(first: Strategy) -> Strategy:
    """A strategy first seen within an iteration was in force from its beginning, without
    computation.
    """
    if "forwards" not in first.options:
        return first
    return replace(first, options=first.options | {"forwards": 0, "backwards": 0})


def row_at(history: Sequence[Strategy], moment: tuple[int, int]) -> Strategy | None:
    """The row in force in a micro-step of an iteration; None before the first."""
    before = [row for row in history if (row.iteration, row.micro_step) <= moment]
    return before[-1] if before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyStep:
    """One strategy of one rank in one iteration, for which a plan is made.

    Attributes:
        steps: the strategy in each micro-step, with the local parts of parameters left by systems
            that shard single parameters.
        others: the same strategy as recorded by the group's other ranks, by rank.
        rows: all rows of it on the rank, or those in force in this iteration: a system may depend
            on its earlier steps.
        pipeline: the pipeline that the rank is in.
        joined: the plan that this one extends, if any.
    """

    steps: Held
    rank: int
    iteration: int
    others: Mapping[int, Strategy]
    rows: Sequence[Strategy]
    pipeline: Strategy | None = None
    joined: Plan | None = None

    @property
    def strategy(self) -> Strategy:
        """The strategy in the last micro-step."""
        return self.steps[-1]

    def order(self) -> Sequence[Phase]:
        """The passes of a pipeline's micro-batches; none without a pipeline.

        Raises:
            ConfigError: their number is not known.
        """
        if self.pipeline is None:
            return ()
        system = _system(self.pipeline)
        part = None if system is None else system.part("plan")
        found: Sequence[Phase] = (
            () if part is None else part.order_of_one_stage(self.pipeline, self.rank)
        )
        return found


def plan_step(
    held: Mapping[int, Sequence[Held]],
    rank: int,
    iteration: int = 0,
    rows: Sequence[Strategy] = (),
) -> tuple[Plan, ...]:
    """The calls of one rank in one iteration under its strategies.

    Strategies that span one rank send nothing and have no plan; nor has a hand-written program,
    which cannot be predicted.

    Args:
        held: strategies in force in the iteration, by rank: see `in_force`.
        rank: the rank to plan for.
        iteration, rows: the iteration, and all rows of the rank.

    Raises:
        ConfigError: an option or a dtype is not known.
        TraceError: the trace contradicts itself about a system.
        UnplannedError: a system is not installed here.
    """
    mine = [steps for steps in held[rank] if any(len(one.ranks) > 1 for one in steps)]
    tensor = [steps[-1] for steps in mine if axis_of(steps[-1].system) is Axis.TENSOR]
    piped = next((s[-1] for s in mine if axis_of(s[-1].system) is Axis.PIPELINE), None)
    plans: list[Plan] = []
    joining: list[tuple[System, StrategyStep]] = []
    for steps in mine:
        system, own = _system(steps[-1]), steps[-1].system
        if own == HAND_WRITTEN:
            continue
        if system is None:
            raise UnplannedError(
                f"according to the trace, {own!r} divides training, but no package here "
                "provides that system (entry points of zerosim.systems), so its "
                "traffic is shown without a check"
            )
        asked = StrategyStep(
            steps=tuple(_local(one, tensor) for one in steps),
            rank=rank,
            iteration=iteration,
            others=_others(held, steps[-1]),
            rows=[row for row in rows if row.system == own] or list(steps),
            pipeline=None if steps[-1] is piped else piped,
        )
        if system.joins:
            joining.append((system, asked))
        elif (plan := _plan(system, asked)) is not None:
            plans.append(_of_what_is_left(plan) if tensor else plan)
    for system, asked in joining:
        models = {held[-1].name for held in mine if _has_its_model(held[-1], asked.strategy)}
        joined = next(
            (
                one
                for one in plans
                if one.system in (system.joins, system.name)
                and (one.ranks == asked.strategy.ranks and one.name in models)
            ),
            None,
        )
        plan = _plan(system, replace(asked, joined=joined))
        if plan is not None:
            plans = [*(one for one in plans if one is not joined), plan]
    return tuple(plans)


def _has_its_model(strategy: Strategy, joining: Strategy) -> bool:
    """Whether a model has the parameters of an optimizer that joins its system."""
    label = text(strategy, "label")
    names = {f"{label}: {one.name}" if label else one.name for one in parameters_of(strategy)}
    return any(one.name in names for one in parameters_of(joining))


def _system(strategy: Strategy) -> System | None:
    return find(strategy.system)


def _plan(system: System, asked: StrategyStep) -> Plan | None:
    part = system.part("plan")
    plan: Callable[[StrategyStep], Plan] | None = None if part is None else part.plan
    if plan is None:
        return None
    with understood(asked.steps):
        made = plan(asked)
        for call in made.calls if made is not None else ():
            if call.ranks and asked.rank not in call.ranks:
                raise ValueError(f"a call of rank {asked.rank} is one of ranks {call.ranks}")
    return made


def _of_what_is_left(plan: Plan) -> Plan:
    """Explain Psi if tensor parallelism has sharded the parameters before."""
    if plan.scale.unit != PSI:
        return plan
    words = said("programs.left", words=plan.law.words)
    return replace(plan, law=replace(plan.law, words=words))


def _others(held: Mapping[int, Sequence[Held]], strategy: Strategy) -> dict[int, Strategy]:
    return {
        rank: steps[-1]
        for rank in strategy.ranks
        for steps in held.get(rank, ())
        if steps[-1].system == strategy.system and steps[-1].name == strategy.name
    }


def _local(strategy: Strategy, tensor: Sequence[Strategy]) -> Strategy:
    """A strategy with its parameters as tensor parallel has left them."""
    if not tensor or axis_of(strategy.system) is Axis.TENSOR:
        return strategy
    bundles = tuple(
        replace(bundle, parameters=local_parameters(bundle.parameters, tensor))
        for bundle in strategy.bundles
    )
    return replace(strategy, bundles=bundles)
