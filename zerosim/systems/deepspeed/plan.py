"""DeepSpeed's stages 0 to 3, with the configuration that they run with.

Laws: those of ZeRO, 2 Psi for stages 0 and 1, g + 1 for stage 2, 3g for stage 3 with g micro-steps.
Its stages 1 and 2 all-reduce gradients by default, and its stage 3 has persistent parameters and
prefetching; docs/deepspeed.md explains it. Source of the laws: Rajbhandari et al. (arXiv
1910.02054), section 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from zerosim.base.errors import ConfigError, UnplannedError
from zerosim.base.quantities import PSI
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.deepspeed import NAME
from zerosim.systems.deepspeed.fetches import (
    ExternalParameter,
    Fetch,
    Fetcher,
    FetchLimits,
    RecomputedForward,
)
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.laws import SOURCES
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import (
    flag,
    name_lists,
    number,
    numbers,
    parameters_of,
    text,
    texts,
)
from zerosim.theory.programs.plan import Plan, Scale, element_bytes_of
from zerosim.theory.programs.steps import StrategyStep, row_at
from zerosim.theory.wording import said

_NAMES = ("data parallel", "ZeRO-1", "ZeRO-2", "ZeRO-3")
_HPZ = "zero_hpz_partition_size"
_UNPLANNED = {
    "zero_quantized_weights": "quantizes gathered parameters (qwZ)",
    "zero_quantized_nontrainable_weights": "keeps and gathers frozen parameters quantized",
    "zero_quantized_gradients": "quantizes gradients for communication (qgZ)",
    "mics_shard_size": "divides among a part of the ranks (MiCS)",
}
"""Options of stage 3 without a plan, and their effect."""
_ASKED_FOR = "GatheredParameters"
HeldAt = Callable[[int, int], Strategy]
"""The strategy in force at an iteration and micro-step."""


@dataclass(slots=True)
class _DeepSpeedStep:
    """The plan so far, and its units.

    Attributes:
        size, gradient_size: bytes per element of communicated parameters and gradients.
    """

    strategy: Strategy
    size: int
    gradient_size: int
    share: Fraction
    calls: list[Movement] = field(default_factory=list)
    causes: list[Deviation] = field(default_factory=list)

    def because(self, cause: Cause, words: str, payload_bytes: int) -> None:
        """Record a part of a cause, given as payload of one pass of a ring."""
        self.causes.append(Deviation(cause, payload_bytes * self.share, words))

    def among_fewer(self, ranks: Sequence[int], payload_bytes: int) -> None:
        """Record the savings of a gather among fewer ranks."""
        share = Fraction(len(ranks) - 1, len(ranks)) - self.share
        words = said(
            "deepspeed.fewer", count=len(ranks), ranks=len(self.strategy.ranks), option=_HPZ
        )
        self.causes.append(Deviation(Cause.SMALLER_GROUP, payload_bytes * share, words))

    def reduce(self, op: Op, elements: int, *, is_cut: bool = True) -> None:
        """Plan a reduction of gradients, which its buckets split into calls."""
        self.calls.append(
            self._call(
                Phase.BACKWARD,
                Purpose.REDUCE_GRADIENTS,
                op,
                elements,
                self.gradient_size,
                is_cut=is_cut,
            )
        )

    def gather(
        self,
        phase: Phase,
        elements: int,
        unit: str,
        op: Op = Op.ALL_GATHER,
        ranks: Sequence[int] = (),
    ) -> None:
        """Plan a gather of parameters, among all ranks by default."""
        call = self._call(phase, Purpose.GATHER_PARAMETERS, op, elements, self.size, unit)
        self.calls.append(replace(call, ranks=tuple(ranks)) if ranks else call)

    def _call(
        self,
        phase: Phase,
        purpose: Purpose,
        op: Op,
        elements: int,
        size: int,
        unit: str = "",
        *,
        is_cut: bool = False,
    ) -> Movement:
        return Movement(
            phase=phase,
            purpose=purpose,
            op=op,
            ranks=self.strategy.ranks,
            elements=elements,
            element_bytes=size,
            unit=unit,
            is_cut=is_cut,
        )


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step: see `plan_deepspeed`."""
    rows = asked.rows

    def held(iteration: int, micro_step: int) -> Strategy:
        return row_at(rows, (iteration, micro_step)) or rows[0]

    return plan_deepspeed(held, asked.iteration, len(asked.steps), asked.rank)


def plan_deepspeed(
    held_at: HeldAt, iteration: int, num_micro_steps: int, rank: int | None = None
) -> Plan:
    """The calls of a rank in one step.

    Args:
        held_at: strategies over time: stage 3 depends on earlier recordings and gathers.
        iteration: the iteration to plan.
        num_micro_steps: micro-steps of the iteration.
        rank: the rank to plan for; the first one by default.

    Raises:
        UnplannedError: an option has no plan.
        ConfigError: an unknown option or dtype.
    """
    strategy = held_at(iteration, num_micro_steps - 1)
    num_ranks, stage = len(strategy.ranks), number(strategy, "stage")
    if stage not in range(4):
        raise ConfigError(f"DeepSpeed of {strategy.name!r} has stage {stage}: expected 0 to 3")
    _require_plan(strategy)
    parameters = parameters_of(strategy)
    elements = sum(one.elements for one in parameters)
    dtype = text(strategy, "dtype") or "float32"
    size = element_bytes_of(dtype)
    share = Fraction(num_ranks - 1, num_ranks)
    step = _DeepSpeedStep(
        strategy,
        size,
        element_bytes_of(text(strategy, "communication_data_type") or dtype),
        share,
    )
    passes = (2, 2, num_micro_steps + 1, 3 * num_micro_steps)[stage]
    if stage == 3:
        _stage_3(step, held_at, iteration, num_micro_steps, rank)
    else:
        _reduce(step, stage, parameters, num_micro_steps if stage == 2 else 1)
        if stage:
            _gather_groups(step)
    return Plan(
        system=NAME,
        name=strategy.name,
        title=said("deepspeed.stage", stage=stage),
        ranks=strategy.ranks,
        law=Law(
            Fraction(passes),
            said(f"deepspeed.{stage}"),
            SOURCES[stage],
            passes * elements * size * share,
        ),
        law_name=_NAMES[stage],
        formula=f"{passes}{PSI}(N-1)/N",
        scale=Scale(unit=PSI, unit_bytes=elements * size, share=share),
        calls=tuple(step.calls),
        causes=tuple(step.causes),
        asked_for={_ASKED_FOR: said("deepspeed.asked_for")} if stage == 3 else {},
        num_parameters=elements,
    )


def _require_plan(strategy: Strategy) -> None:
    for option, words in _UNPLANNED.items():
        # MiCS is off at -1
        if (value := strategy.options.get(option)) and value != -1:
            raise UnplannedError(
                f"DeepSpeed of {strategy.name!r} {words}: there is no plan for {option}, so its "
                "traffic is shown without a check"
            )


def _up(elements: int, multiple: int) -> int:
    return -(-elements // multiple) * multiple


def _reduce(step: _DeepSpeedStep, stage: int, parameters: Sequence[Parameter], times: int) -> None:
    """Gradients of stages 0 to 2."""
    trainable = sum(one.elements for one in parameters if one.trainable)
    frozen = sum(one.elements for one in parameters) - trainable
    passes = 2 if stage == 0 else 1
    if text(step.strategy, "optimizer") == "BF16_Optimizer":
        sizes = [number(bundle, "padded_elements") for bundle in step.strategy.bundles]
        for size in sizes:
            step.reduce(Op.ALL_REDUCE, size, is_cut=False)
        sent, op = sum(sizes), Op.ALL_REDUCE
        padding = sent - trainable
        step.because(Cause.PADDING, said("programs.padding"), 2 * padding * step.gradient_size)
        words = said("deepspeed.groups")
    else:
        by_owner = stage > 0 and not flag(step.strategy, "use_multi_rank_bucket_allreduce")
        op = Op.REDUCE if by_owner else Op.ALL_REDUCE
        for _ in range(times):
            step.reduce(op, trainable)
        words = said("deepspeed.buckets")
    if stage and op is Op.ALL_REDUCE:
        step.because(Cause.ALL_REDUCED, words, times * trainable * step.gradient_size)
    step.because(
        Cause.REDUCTION_DTYPE,
        said("programs.reduced_in", size=step.gradient_size, own=step.size),
        passes * times * trainable * (step.gradient_size - step.size),
    )
    step.because(
        Cause.FROZEN_PARAMETERS,
        said("programs.no_gradient"),
        -passes * times * frozen * step.size,
    )


def _gather_groups(step: _DeepSpeedStep) -> None:
    """Stages 1 and 2: each parameter group's flat buffer, after the update."""
    for bundle in step.strategy.bundles:
        elements = sum(one.elements for one in bundle.parameters)
        padded = number(bundle, "padded_elements", elements)
        step.gather(Phase.UPDATE, padded, bundle.name)
        step.because(Cause.PADDING, said("programs.padding"), (padded - elements) * step.size)


def _stage_3(
    step: _DeepSpeedStep, held_at: HeldAt, iteration: int, num_micro_steps: int, rank: int | None
) -> None:
    num_ranks = len(step.strategy.ranks)
    parameters = {one.name: one for one in parameters_of(step.strategy)}
    persistent = frozenset(
        name for bundle in step.strategy.bundles for name in texts(bundle, "persistent")
    )
    padded = {name: _up(one.elements, num_ranks) for name, one in parameters.items()}
    gathered = dict.fromkeys(parameters, 0)
    fetcher = _fetcher(step.strategy, held_at, iteration, persistent)
    secondary = _secondary(step.strategy, rank)
    fetches = _fetched(fetcher, held_at, iteration, num_micro_steps)
    by_all_reduce = flag(step.strategy, "use_all_reduce_for_fetch_params", default=False)
    for fetch in fetches:
        names, is_coalesced = fetch.names, len(fetch.names) > 1 and not fetch.is_secondary
        op = Op.ALL_REDUCE if by_all_reduce and is_coalesced else Op.ALL_GATHER
        ranks = secondary if fetch.is_secondary else []
        total = sum(padded[name] for name in names)
        step.gather(fetch.phase, total, ", ".join(names[:1]), op, ranks)
        if ranks:
            step.among_fewer(ranks, total * step.size)
        if op is Op.ALL_REDUCE:
            words = said("deepspeed.fetched")
            step.because(Cause.ALL_REDUCED, words, total * step.size)
        for name in names:
            gathered[name] += 1
            step.because(
                Cause.PADDING,
                said("programs.padding"),
                (padded[name] - parameters[name].elements) * step.size,
            )
    again = fetcher.num_recomputed()
    for name, one in parameters.items():
        beyond = gathered[name] - 2 * num_micro_steps
        recomputed = max(0, min(beyond, again.get(name, 0) * num_micro_steps))
        size = one.elements * step.size
        words = said("deepspeed.recomputed")
        step.because(Cause.RECOMPUTATION, words, recomputed * size)
        words = said("deepspeed.used_again")
        step.because(Cause.USED_AGAIN, words, (max(0, beyond) - recomputed) * size)
        words = said("deepspeed.persistent" if name in persistent else "deepspeed.kept")
        step.because(Cause.KEPT_PARAMETERS, words, min(0, beyond) * size)
    _reduce_stage_3(step, list(parameters.values()), num_micro_steps)


def _secondary(strategy: Strategy, rank: int | None) -> list[int]:
    """The ranks of a secondary partition; none without hpZ."""
    ranks = numbers(strategy, "secondary_ranks")
    mine = strategy.ranks[0] if rank is None else rank
    if ranks and (mine not in ranks or not set(ranks) <= set(strategy.ranks)):
        raise ConfigError(
            f"the secondary partition of {strategy.name!r} is kept by ranks {ranks}: expected some "
            f"of {list(strategy.ranks)}, rank {mine} among them"
        )
    return ranks


def _reduce_stage_3(step: _DeepSpeedStep, parameters: Sequence[Parameter], times: int) -> None:
    num_ranks = len(step.strategy.ranks)
    trainable = [one.elements for one in parameters if one.trainable]
    frozen = sum(one.elements for one in parameters) - sum(trainable)
    scatters = flag(step.strategy, "reduce_scatter")
    total = sum(_up(size, num_ranks) for size in trainable) if scatters else sum(trainable)
    for _ in range(times):
        step.reduce(Op.REDUCE_SCATTER if scatters else Op.ALL_REDUCE, total)
    if not scatters:
        words = said("deepspeed.all_reduced")
        step.because(Cause.ALL_REDUCED, words, times * total * step.gradient_size)
    padding = times * (total - sum(trainable))
    step.because(Cause.PADDING, said("programs.padding"), padding * step.gradient_size)
    step.because(
        Cause.REDUCTION_DTYPE,
        said("programs.reduced_in", size=step.gradient_size, own=step.size),
        times * sum(trainable) * (step.gradient_size - step.size),
    )
    words = said("programs.no_gradient")
    step.because(Cause.FROZEN_PARAMETERS, words, -times * frozen * step.size)


def _fetcher(
    strategy: Strategy, held_at: HeldAt, iteration: int, persistent: frozenset[str]
) -> Fetcher:
    """Stage 3 with the order that it recorded, or is about to record."""
    nearest = [
        strategy,
        *(held_at(later, m) for later in range(iteration, iteration + 3) for m in (0, 1)),
    ]
    recorded = next((one for one in nearest if texts(one, "module_order")), None)
    if recorded is None:
        raise ConfigError(
            f"DeepSpeed of {strategy.name!r} did not record the order of its modules, so the "
            "gathers of stage 3 are unknown; trace two micro-steps or more"
        )
    cut = frozenset(numbers(recorded, "cut_short"))
    places, within = numbers(recorded, "recomputed"), name_lists(recorded, "recomputed_within")
    order = texts(recorded, "module_order")
    externals: dict[int, list[ExternalParameter]] = {}
    for place, names in zip(numbers(recorded, "met_at"), name_lists(recorded, "met"), strict=False):
        if len(names) != 2:
            raise ConfigError(
                f"option 'met' of {strategy.name!r} has {names}: expected a module and a parameter"
            )
        externals.setdefault(place, []).append(ExternalParameter(*names))
    parameters = parameters_of(strategy)
    has_secondary = bool(numbers(strategy, "secondary_ranks"))
    return Fetcher(
        order=order,
        own={one.name: [p.name for p in one.parameters] for one in recorded.bundles},
        direct={
            one.name: texts(one, "direct") for one in recorded.bundles if "direct" in one.options
        },
        external={one.name: texts(one, "external") for one in recorded.bundles},
        returned=frozenset(name for one in recorded.bundles for name in texts(one, "returned")),
        externals=externals,
        sizes={one.name: one.elements for one in parameters},
        persistent=persistent,
        recomputes={
            place: RecomputedForward(frozenset(names), place in cut)
            for place, names in zip(places, within, strict=False)
            if 0 <= place < len(order)
        },
        frozen=frozenset(one.name for one in parameters if not one.trainable),
        has_secondary=has_secondary,
        # created when parameters are partitioned, before the first step
        secondary={one.name for one in parameters} if has_secondary else set(),
        limits=FetchLimits(
            prefetch=number(strategy, "prefetch_bucket_size"),
            live=number(strategy, "max_live_parameters"),
            reuse=number(strategy, "max_reuse_distance"),
            one_by_one=flag(strategy, "allgather_sequential", default=False),
        ),
    )


def _fetched(
    fetcher: Fetcher, held_at: HeldAt, iteration: int, num_micro_steps: int
) -> list[Fetch]:
    """The gathers of an iteration, with those after its update one by one."""
    found: list[Fetch] = []
    # after its second iteration that records nothing stage 3 repeats itself
    recorded = [it for it in range(iteration + 1) if _records(held_at(it, 0))]
    first = max(0, max(recorded, default=0))
    if first:
        fetcher.secondary &= fetcher.frozen
    for each in (*range(first, min(iteration, first + 2)), iteration):
        found = []
        for micro_step in range(num_micro_steps):
            held = held_at(each, micro_step)
            partitioned = texts(held, "partitioned")
            found += fetcher.micro_step(records=_records(held), partitioned=partitioned)
        found += [Fetch(Phase.UPDATE, (name,)) for name in fetcher.update()]
    return found


def _records(strategy: Strategy) -> bool:
    return text(strategy, "trace") == "record"
