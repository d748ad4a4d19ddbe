"""All strategies of a rank together: what each makes it call in one optimizer step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zerosim.base.quantities import PSI
from zerosim.schema.strategies import Strategy, System
from zerosim.theory.programs.ddp import plan_ddp
from zerosim.theory.programs.deepspeed import HeldAt, plan_deepspeed
from zerosim.theory.programs.fsdp import plan_fsdp
from zerosim.theory.programs.pipeline import order_of_one_stage, plan_pipeline
from zerosim.theory.programs.plan import Plan
from zerosim.theory.programs.tensor_parallel import local_parameters, plan_tensor_parallel
from zerosim.theory.programs.zero_redundancy import plan_zero_redundancy
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
    named: dict[tuple[System, str], list[Strategy]] = {}
    for row in rows:
        named.setdefault((row.system, row.name), []).append(row)
    found = []
    for history in named.values():
        held = [_at(history, (iteration, number)) for number in range(num_micro_steps)]
        known = [one for one in held if one is not None]
        if known:
            found.append(tuple(one or _before(known[0]) for one in held))
    return tuple(found)


def _before(first: Strategy) -> Strategy:
    """What is first seen within an iteration held from its beginning, and computed nothing yet."""
    if "forwards" not in first.options:
        return first
    return replace(first, options=first.options | {"forwards": 0, "backwards": 0})


def _at(history: Sequence[Strategy], moment: tuple[int, int]) -> Strategy | None:
    before = [row for row in history if (row.iteration, row.micro_step) <= moment]
    return before[-1] if before else None


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
        iteration, rows: which iteration it is, and all rows of the rank: what DeepSpeed's stage
            3 does follows from what it did before.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    mine = [steps for steps in held[rank] if any(len(one.ranks) > 1 for one in steps)]
    piped = next((s[-1] for s in mine if s[-1].system is System.PIPELINE), None)
    tensor = [steps[-1] for steps in mine if steps[-1].system is System.TENSOR_PARALLEL]
    plans: list[Plan] = []
    optimizers: list[Strategy] = []
    for steps in mine:
        local = tuple(_local(one, tensor) for one in steps)
        match steps[-1].system:
            case System.DDP:
                plans.append(plan_ddp(local if piped is None else _reduced_last(local)))
            case System.FSDP2 | System.FSDP1:
                order = () if piped is None else order_of_one_stage(piped, rank)
                plans.append(plan_fsdp(local, order))
            case System.TENSOR_PARALLEL:
                plans.append(plan_tensor_parallel(steps))
            case System.PIPELINE:
                plans.append(plan_pipeline(steps[-1], _others(held, steps[-1]), rank))
            case System.ZERO_REDUNDANCY:
                optimizers.append(local[-1])
            case System.DEEPSPEED:
                own = [row for row in rows if row.system is System.DEEPSPEED] or list(steps)
                plans.append(plan_deepspeed(_history(own), iteration, len(steps), rank))
            case System.HAND_WRITTEN:
                pass
    plans = [_of_what_is_left(plan) if tensor else plan for plan in plans]
    for optimizer in optimizers:
        beside = next((p for p in plans if _is_beside(p, optimizer)), None)
        joined = plan_zero_redundancy(optimizer, beside)
        plans = [plan for plan in plans if plan is not beside]
        plans.append(joined)
    return tuple(plans)


def _reduced_last(micro_steps: Held) -> Held:
    """A pipeline lets DDP reduce in the last backward of the step."""
    last = len(micro_steps) - 1
    return tuple(
        replace(one, options=one.options | {"reduces": place == last})
        for place, one in enumerate(micro_steps)
    )


def _history(rows: Sequence[Strategy]) -> HeldAt:
    return lambda iteration, micro_step: _at(rows, (iteration, micro_step)) or rows[0]


def _of_what_is_left(plan: Plan) -> Plan:
    """Say what Psi is where tensor parallel has divided the parameters before."""
    if plan.scale.unit != PSI:
        return plan
    words = said("programs.left", words=plan.law.words)
    return replace(plan, law=replace(plan.law, words=words))


def _is_beside(plan: Plan, optimizer: Strategy) -> bool:
    return plan.system is System.DDP and plan.ranks == optimizer.ranks


def _others(held: Mapping[int, Sequence[Held]], strategy: Strategy) -> dict[int, Strategy]:
    """The same pipeline as its other ranks tell of it."""
    return {
        rank: steps[-1]
        for rank in strategy.ranks
        for steps in held.get(rank, ())
        if steps[-1].system is strategy.system and steps[-1].name == strategy.name
    }


def _local(strategy: Strategy, tensor: Sequence[Strategy]) -> Strategy:
    """A strategy with its parameters as tensor parallel has left them."""
    if not tensor or strategy.system is System.TENSOR_PARALLEL:
        return strategy
    bundles = tuple(
        replace(bundle, parameters=local_parameters(bundle.parameters, tensor))
        for bundle in strategy.bundles
    )
    return replace(strategy, bundles=bundles)
