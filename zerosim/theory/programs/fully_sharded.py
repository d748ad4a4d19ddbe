"""Fully sharded: parameters are gathered when a module computes, gradients reduce-scattered.

Law: stage 3 of ZeRO, 3 Psi in each micro-step; on a 2-D mesh (HSDP) each rank's part of the
gradients is also all-reduced over the replicas: 2 Psi/N. A system pads each parameter separately,
or a module's flat parameter. Source: Y. Zhao
et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel" (arXiv 2304.11277),
sections 3.2 and 4.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from zerosim.base.quantities import PSI
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import flag, number, numbers, passes, text, texts
from zerosim.theory.programs.plan import Plan, Scale, element_bytes_of, factor
from zerosim.theory.programs.steps import StrategyStep
from zerosim.theory.wording import said

SOURCE = "Rajbhandari et al., arXiv 1910.02054, section 7.2.2"
HYBRID_SOURCE = f"{SOURCE}; Zhao et al., arXiv 2304.11277, section 3.2.2"


@dataclass(frozen=True, slots=True)
class _Passes:
    """The passes of a model in a step.

    Attributes:
        returns: number of forwards that its backwards pass through, each with its own gathers.
    """

    forwards: int
    backwards: int
    returns: int


@dataclass(frozen=True, slots=True)
class _Module:
    """A wrapped module in one micro-step, in numbers.

    Attributes:
        shards, replicas: global ranks that share it, and that have the same part.
        elements, padded: elements of all its parameters.
        trainable: elements of those that are not frozen.
        reduced, reduced_padded: elements of those with a gradient.
        size, reduce_size: bytes per element of communicated parameters and gradients.
    """

    name: str
    shards: tuple[int, ...]
    replicas: tuple[int, ...]
    elements: int
    padded: int
    trainable: int
    reduced: int
    reduced_padded: int
    size: int
    reduce_size: int

    @property
    def share(self) -> Fraction:
        """(N-1)/N."""
        return _share(len(self.shards))

    def law_bytes(self, passes_: _Passes) -> Fraction:
        """Traffic of a rank for it under the law: a gather in each pass, a reduction in
        backward.
        """
        gathers = (passes_.forwards + passes_.returns) * self.share
        reductions = passes_.backwards * (self.share + self.replica_share)
        return self.elements * self.size * (gathers + reductions)

    @property
    def replica_share(self) -> Fraction:
        """Traffic of a rank to the replicas, for all gradients."""
        return Fraction(2, len(self.shards)) * _share(len(self.replicas))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Differences between systems that shard all parameters.

    Attributes:
        title: name of a strategy, from its numbers of shards and replicas.
        is_flat: a module's parameters are one flat parameter, padded as a whole; else dim 0 of each
            is padded.
        gathers_ahead: whether the backward of each module gathers the module that precedes it
            in forward, even if that one has no backward.
    """

    title: Callable[[Strategy, int, int], str]
    is_flat: bool = False
    gathers_ahead: bool = False


@dataclass(slots=True)
class _FsdpStep:
    """The plan so far."""

    sharding: Sharding
    calls: list[Movement] = field(default_factory=list)
    causes: list[Deviation] = field(default_factory=list)

    def because(self, cause: Cause, words: str, size: Fraction) -> None:
        """Record a part of a cause."""
        self.causes.append(Deviation(cause, size, words))


def plan_fully_sharded(asked: StrategyStep, sharding: Sharding) -> Plan:
    """The calls of a rank in one step.

    A pipeline keeps parameters after each backward, and reduces and frees at the end of the step.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    micro_steps, order = asked.steps, asked.order()
    taking_part = [held for held in micro_steps if any(passes(held))]
    strategy = (taking_part or micro_steps)[-1]
    modules = [_module(strategy, bundle, sharding) for bundle in strategy.bundles]
    unit_bytes = sum(module.elements * module.size for module in modules)
    most = max(modules, key=lambda one: one.elements, default=None)
    num_shards = len(strategy.ranks) if most is None else len(most.shards)
    num_replicas = 1 if most is None else len(most.replicas)
    if order:
        made = _Passes(len(micro_steps), len(micro_steps), len(micro_steps))
    else:
        made = _Passes(
            sum(passes(held)[0] for held in taking_part),
            sum(passes(held)[1] for held in taking_part),
            sum(_returns(held) for held in taking_part),
        )
    scale = Scale(unit=PSI, unit_bytes=unit_bytes, share=_share(num_shards))
    if num_shards == 1 and num_replicas > 1:
        scale = Scale(unit=PSI, unit_bytes=unit_bytes, share=_share(num_replicas))
    step = _FsdpStep(sharding)
    gathered: set[str] = set()
    if order:
        _in_pipeline(step, strategy, order)
    for held in () if order else taking_part:
        if not passes(held)[0]:  # the forward was in an earlier iteration
            whole = {one.name for one in held.bundles if flag(one, "starts_whole", default=False)}
            gathered |= whole
        for place in range(passes(held)[0]):
            _forward(step, held, gathered, is_first=place == 0)
        for _ in range(_returns(held) - passes(held)[1]):
            _backward(step, held, gathered, is_last=False)
        for _ in range(passes(held)[1]):
            _backward(step, held, gathered)
    law = Law(
        (made.forwards + made.returns + made.backwards) * (num_shards > 1)
        + made.backwards * Fraction(2 * (num_replicas > 1), num_shards),
        _words(num_shards, num_replicas, made),
        SOURCE if num_replicas == 1 else HYBRID_SOURCE,
        sum((module.law_bytes(made) for module in modules), Fraction(0)),
    )
    return Plan(
        system=strategy.system,
        name=strategy.name,
        title=sharding.title(strategy, num_shards, num_replicas),
        ranks=strategy.ranks,
        law=law,
        law_name=_law_name(num_shards, num_replicas),
        formula=_formula(num_shards, num_replicas, made),
        scale=scale,
        calls=tuple(step.calls),
        causes=tuple(step.causes),
        num_parameters=sum(module.elements for module in modules),
        made=_made(made),
    )


def _returns(strategy: Strategy) -> int:
    """The number of forwards that the backwards of a micro-step pass through: at least one each."""
    backwards = passes(strategy)[1]
    return max(backwards, number(strategy, "returns", backwards)) if backwards else 0


def _words(num_shards: int, num_replicas: int, made: _Passes) -> str:
    key = "fsdp.law_replicas" if num_replicas > 1 else "fsdp.law"
    words = said("fsdp.law_replicate" if num_shards == 1 else key, replicas=num_replicas)
    if here := _made(made):
        return said("fsdp.here", words=words, made=here)
    count = made.backwards
    return said("programs.each", law=words, count=count) if count > 1 else words


def _made(made: _Passes) -> str:
    """The forwards and backwards of a model, in words; "" if there are equally many of both."""
    if made.forwards == made.backwards:
        return ""
    key = "through" if made.returns > made.backwards else "both" if made.backwards else "forward"
    return said(
        f"fsdp.in_{key}",
        forwards=_times(made.forwards, "fsdp.forwards"),
        backwards=_times(made.backwards, "fsdp.backwards"),
        returns=made.returns,
    )


def _times(count: int, what: str) -> str:
    one, several, none = said.each(what, number=count)
    return none if not count else one if count == 1 else several


def _law_name(num_shards: int, num_replicas: int) -> str:
    if num_shards == 1:
        return "data parallel"
    return "ZeRO-3" if num_replicas == 1 else "ZeRO-3 with replicas"


def _formula(num_shards: int, num_replicas: int, made: _Passes) -> str:
    if num_shards == 1:
        return f"{2 * made.backwards}{PSI}(R-1)/R"
    formula = f"{factor(made.forwards + made.returns + made.backwards)}{PSI}(N-1)/N"
    if num_replicas > 1 and made.backwards:
        formula += f" + {2 * made.backwards}{PSI}/N(R-1)/R"
    return formula


def _module(strategy: Strategy, bundle: Bundle, sharding: Sharding) -> _Module:
    shards = tuple(numbers(bundle, "shard_ranks")) or strategy.ranks
    replicas = tuple(numbers(bundle, "replicate_ranks")) or strategy.ranks[:1]
    parameters = bundle.parameters
    trainable = [one for one in parameters if one.trainable]
    without = set(texts(bundle, "without_gradient"))
    reduced = [one for one in trainable if one.name not in without]
    dtypes = {one.dtype for one in parameters} or {"float32"}
    dtype = text(bundle, "parameter_dtype") or min(dtypes)
    flat = number(bundle, "padded_elements")
    if sharding.is_flat:
        padded = flat or _up(sum(one.elements for one in parameters), len(shards))
        reduced_padded = padded if reduced else 0
        num_trainable = sum(one.elements for one in (parameters if trainable else ()))
        num_reduced = num_trainable if reduced else 0
    else:
        padded = sum(_padded(one, len(shards)) for one in parameters)
        reduced_padded = sum(_padded(one, len(shards)) for one in reduced)
        num_trainable = sum(one.elements for one in trainable)
        num_reduced = sum(one.elements for one in reduced)
    return _Module(
        name=bundle.name,
        shards=shards,
        replicas=replicas,
        elements=sum(one.elements for one in parameters),
        padded=padded,
        trainable=num_trainable,
        reduced=num_reduced,
        reduced_padded=reduced_padded,
        size=element_bytes_of(dtype),
        reduce_size=element_bytes_of(text(bundle, "reduce_dtype") or dtype),
    )


def _padded(parameter: Parameter, num_ranks: int) -> int:
    """A parameter's rows are divided among the ranks, so their number is padded."""
    rows = parameter.shape[0] if parameter.shape else 1
    return parameter.elements // rows * _up(rows, num_ranks) if rows else 0


def _up(number_: int, multiple: int) -> int:
    return -(-number_ // multiple) * multiple


def _share(num_ranks: int) -> Fraction:
    return Fraction(num_ranks - 1, num_ranks)


def _in_pipeline(step: _FsdpStep, strategy: Strategy, order: Sequence[Phase]) -> None:
    """All micro-batches of a stage, and the calls delayed to the end of the step."""
    kept = replace(
        strategy,
        bundles=tuple(
            replace(
                bundle,
                options=bundle.options | {"reshards_after_backward": False, "reduces": False},
            )
            for bundle in strategy.bundles
        ),
    )
    gathered: set[str] = set()
    for phase in order:
        (_forward if phase is Phase.FORWARD else _backward)(step, kept, gathered)
    for bundle in strategy.bundles:
        module = _module(strategy, bundle, step.sharding)
        factor = module.share + module.replica_share
        step.because(
            Cause.NOT_REDUCED, said("fsdp.added_up"), module.elements * module.size * factor
        )
        _reduce(step, module, reduces=True)


def _forward(
    step: _FsdpStep, strategy: Strategy, gathered: set[str], *, is_first: bool = True
) -> None:
    """A forward, the first of its micro-step or not; `gathered` has the gathered modules."""
    for bundle in strategy.bundles:
        module = _module(strategy, bundle, step.sharding)
        if not flag(bundle, "is_used"):
            words = said("fsdp.unused")
            step.because(Cause.UNUSED, words, -module.elements * module.size * module.share)
            continue
        if bundle.name in gathered:
            after = "backward" if is_first else "forward"
            words = said(f"fsdp.{_root(bundle)}kept_after_{after}")
            whole = module.elements * module.size * module.share
            step.because(Cause.KEPT_PARAMETERS, words, -whole)
        elif flag(bundle, "starts_whole", default=False):
            words = said(f"fsdp.{_root(bundle)}whole")
            whole = module.elements * module.size * module.share
            step.because(Cause.KEPT_PARAMETERS, words, -whole)
        else:
            _gather(step, module, Phase.FORWARD, module.shards)
        gathered.add(bundle.name)
        if flag(bundle, "reshards_after_forward"):
            gathered.discard(bundle.name)


def _backward(
    step: _FsdpStep, strategy: Strategy, gathered: set[str], *, is_last: bool = True
) -> None:
    """A backward; it stops at the first module that is trained.

    Args:
        is_last: last among the forwards of the same backward: gradients are reduced once they are
            summed. A module without an input gradient is not freed before.
    """
    goes_back = _goes_back(strategy, step.sharding)
    for bundle in reversed(strategy.bundles):
        module = _module(strategy, bundle, step.sharding)
        whole = module.elements * module.size * module.share
        fewer = tuple(numbers(bundle, "reshard_ranks"))
        if not flag(bundle, "is_used"):
            step.because(
                Cause.UNUSED, said("fsdp.unused"), -module.law_bytes(_Passes(0, is_last, 1))
            )
            continue
        if bundle.name in gathered:
            words = said(kept_after_forward(bundle.name))
            if flag(bundle, "reshards_after_forward"):
                words = said(f"fsdp.{_root(bundle)}kept_after_backward")
            step.because(Cause.KEPT_PARAMETERS, words, -whole)
        elif not goes_back[bundle.name]:
            words = said("fsdp.not_needed")
            step.because(Cause.FROZEN_PARAMETERS, words, -whole)
        else:
            _gather(step, module, Phase.BACKWARD, fewer or module.shards)
            gathered.add(bundle.name)
        if not is_last:
            if flag(bundle, "reshards_after_backward") and flag(bundle, "is_fed"):
                gathered.discard(bundle.name)
            continue
        reduces = flag(bundle, "reduces")
        _reduce(step, module, reduces=reduces, all_reduces=flag(bundle, "all_reduces"))
        if flag(bundle, "reshards_after_backward"):
            gathered.discard(bundle.name)


def _goes_back(strategy: Strategy, sharding: Sharding) -> dict[str, bool]:
    """Whether a module's parameters are gathered for its backward, if they are not present."""
    is_reached = False
    found: dict[str, bool] = {}
    for bundle in strategy.bundles:
        is_reached |= any(one.trainable for one in bundle.parameters)
        # older traces, and systems with flat parameters, do not record it
        found[bundle.name] = flag(bundle, "is_reached", default=is_reached)
    if sharding.gathers_ahead:
        order = _computed(strategy.bundles)
        for before, after in itertools.pairwise(order):
            if found[after] and not found[before]:
                found[before] = True
                break
    return found


def _computed(bundles: Sequence[Bundle]) -> list[str]:
    """Modules in order of their forward's end: each after those within it."""
    found: list[str] = []
    within: list[str] = []
    for name in (bundle.name for bundle in bundles):
        while within and not _is_within(name, within[-1]):
            found.append(within.pop())
        within.append(name)
    return [*found, *reversed(within)]


def _is_within(name: str, outer: str) -> bool:
    """Whether a module is part of another, by their names."""
    label, _, last = outer.rpartition(" ")
    if last == "root":
        return name.startswith(f"{label} ") if label else True
    return name.startswith(f"{outer}.")


def kept_after_forward(module: str) -> str:
    """The text that explains that a module's parameters are kept after forward."""
    return "fsdp.root_parameters_kept" if _is_root(module) else "fsdp.kept_after_forward"


def _root(bundle: Bundle) -> str:
    return "root_" if _is_root(bundle.name) else ""


def _is_root(module: str) -> bool:
    """Whether a module is its model's root, whose name precedes it except for the first model."""
    return module == "root" or module.endswith(": root")


def _gather(step: _FsdpStep, module: _Module, phase: Phase, ranks: tuple[int, ...]) -> None:
    share, law_share = _share(len(ranks)), module.share
    if module.padded and len(ranks) > 1:
        step.calls.append(
            Movement(
                phase=phase,
                purpose=Purpose.GATHER_PARAMETERS,
                op=Op.ALL_GATHER,
                ranks=ranks,
                elements=module.padded,
                element_bytes=module.size,
                unit=module.name,
            )
        )
    padding = module.padded - module.elements
    step.because(Cause.PADDING, said("programs.padding"), padding * module.size * law_share)
    step.because(
        Cause.SMALLER_GROUP,
        said("programs.fewer", count=len(ranks), ranks=len(module.shards)),
        module.padded * module.size * (share - law_share),
    )


def _reduce(step: _FsdpStep, module: _Module, *, reduces: bool, all_reduces: bool = True) -> None:
    """The reduce-scatter among the shards, and the all-reduce of the part over the replicas."""
    factor = module.share + module.replica_share
    if reduces and not all_reduces:
        step.because(
            Cause.NOT_REDUCED,
            said("fsdp.replicas_later"),
            -module.elements * module.size * module.replica_share,
        )
        module = replace(module, replicas=module.replicas[:1])
        factor = module.share
    if not reduces:
        step.because(
            Cause.NOT_REDUCED, said("fsdp.added_up"), -module.elements * module.size * factor
        )
        return
    frozen = module.elements - module.trainable
    step.because(
        Cause.FROZEN_PARAMETERS,
        said("programs.no_gradient"),
        -frozen * module.size * factor,
    )
    step.because(
        Cause.UNUSED,
        said("fsdp.without_gradient"),
        (module.reduced - module.trainable) * module.size * factor,
    )
    if not module.reduced:
        return
    if len(module.shards) > 1:
        step.calls.append(
            Movement(
                phase=Phase.BACKWARD,
                purpose=Purpose.REDUCE_GRADIENTS,
                op=Op.REDUCE_SCATTER,
                ranks=module.shards,
                elements=module.reduced_padded,
                element_bytes=module.reduce_size,
                unit=module.name,
            )
        )
    if len(module.replicas) > 1:
        step.calls.append(
            Movement(
                phase=Phase.BACKWARD,
                purpose=Purpose.REDUCE_GRADIENTS,
                op=Op.ALL_REDUCE,
                ranks=module.replicas,
                elements=module.reduced_padded // len(module.shards),
                element_bytes=module.reduce_size,
                unit=module.name,
            )
        )
    padding = module.reduced_padded - module.reduced
    step.because(Cause.PADDING, said("programs.padding"), padding * module.reduce_size * factor)
    wider = module.reduce_size - module.size
    step.because(
        Cause.REDUCTION_DTYPE,
        said("fsdp.reduced_in", size=module.reduce_size, own=module.size),
        module.reduced * wider * factor,
    )


def name_of_shards(strategy: Strategy) -> str:
    """The name of a system that shards all parameters, with its groups, in words."""
    is_hybrid = any(
        len(numbers(bundle, "replicate_ranks")) > 1 and len(numbers(bundle, "shard_ranks")) > 1
        for bundle in strategy.bundles
    )
    if flag(strategy, "replicates", default=False):
        return said("states.replicate", system=strategy.system)
    return f"{strategy.system} (HSDP)" if is_hybrid else str(strategy.system)
