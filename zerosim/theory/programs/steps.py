"""All strategies of a rank together: what each makes it call in one optimizer step.

Each system is asked for its own plan. What one makes of another's is said by its axis: one that
divides single parameters leaves less to the others, a pipeline reduces once a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from zerosim.base.errors import UnplannedError
from zerosim.base.quantities import PSI
from zerosim.schema.events import Phase
from zerosim.schema.strategies import HAND_WRITTEN, Strategy
from zerosim.systems.registry import Axis, System, axis_of, find
from zerosim.theory.programs.parts import local_parameters
from zerosim.theory.programs.plan import Plan
from zerosim.theory.wording import said

Held = tuple[Strategy, ...]
"""One strategy as it was in each micro-step of an iteration."""


def in_force(rows: Sequence[Strategy], iteration: int, num_micro_steps: int) -> tuple[Held, ...]:
    """The strategies that hold in an iteration, each in each micro-step.

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
    """What is first seen within an iteration held from its beginning, and computed nothing yet."""
    if "forwards" not in first.options:
        return first
    return replace(first, options=first.options | {"forwards": 0, "backwards": 0})


def row_at(history: Sequence[Strategy], moment: tuple[int, int]) -> Strategy | None:
    """The row that holds in a micro-step of an iteration; None before the first."""
    before = [row for row in history if (row.iteration, row.micro_step) <= moment]
    return before[-1] if before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyStep:
    """One strategy of one rank in one iteration, of which a plan is asked for.

    Attributes:
        steps: the strategy in each micro-step, with its parameters as systems that divide single
            parameters have left them.
        others: the same strategy as its other ranks tell of it, by rank.
        rows: all rows of the rank that say it, or what held in this iteration: what a system does
            may follow from what it did before.
        pipeline: the pipeline that the rank is in.
        joined: the plan that this one becomes a part of, if there is one.
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
        """As it was in the last micro-step."""
        return self.steps[-1]

    def order(self) -> Sequence[Phase]:
        """Of the forwards and backwards of a pipeline's micro-batches; none without a pipeline.

        Raises:
            ConfigError: it is not known.
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
    """What the strategies make one rank call in one iteration.

    Strategies that span one rank send nothing and have no plan; nor has a hand-written program,
    of which nothing is known beforehand.

    Args:
        held: what holds in the iteration, by rank: see `in_force`.
        rank: whose plan it is.
        iteration, rows: which iteration it is, and all rows of the rank.

    Raises:
        ConfigError: an option or a dtype is not known.
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
                f"the trace says that {own!r} divides the training, and no package here knows that "
                "system (entry points of zerosim.systems), so what it sends is shown as it is"
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
        ranks = asked.strategy.ranks
        joined = next((p for p in plans if (p.system, p.ranks) == (system.joins, ranks)), None)
        plan = _plan(system, replace(asked, joined=joined))
        if plan is not None:
            plans = [*(one for one in plans if one is not joined), plan]
    return tuple(plans)


def _system(strategy: Strategy) -> System | None:
    return find(strategy.system)


def _plan(system: System, asked: StrategyStep) -> Plan | None:
    part = system.part("plan")
    plan: Callable[[StrategyStep], Plan] | None = None if part is None else part.plan
    return None if plan is None else plan(asked)


def _of_what_is_left(plan: Plan) -> Plan:
    """Say what Psi is where tensor parallel has divided the parameters before."""
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
