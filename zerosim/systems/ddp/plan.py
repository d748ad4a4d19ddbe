"""DistributedDataParallel: each bucket is all-reduced when its last gradient is present.

Law: data parallel, 2 Psi a step. Source: S. Li et al., "PyTorch Distributed: Experiences on
Accelerating Data Parallel Training" (arXiv 2006.15704), section 3.2; the law as in `theory.laws`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.language import listed
from zerosim.base.quantities import PSI, format_exact
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Parameter, Strategy
from zerosim.systems.ddp import NAME
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import (
    flag,
    name_lists,
    number,
    number_map,
    numbers,
    parameters_of,
    passes,
    text,
    texts,
)
from zerosim.theory.programs.plan import (
    Plan,
    Scale,
    bytes_of,
    element_bytes_of,
)
from zerosim.theory.programs.steps import Held, StrategyStep
from zerosim.theory.wording import said

SOURCE = "Rajbhandari et al., arXiv 1910.02054, section 7.1"
_HALF_HOOKS = {"fp16_compress": 2, "bf16_compress": 2}
_MOST_NAMED = 4
_PLAIN_HOOKS = ("", "allreduce_hook", "noop_hook")


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    micro_steps = asked.steps if asked.pipeline is None else _reduced_last(asked.steps)
    taking_part = [held for held in micro_steps if any(passes(held))]
    strategy = (taking_part or micro_steps)[-1]
    num_ranks = len(strategy.ranks)
    goes_back = any(passes(held)[1] for held in taking_part)
    parameters = parameters_of(strategy)
    scale = Scale(
        unit=PSI, unit_bytes=bytes_of(parameters), share=Fraction(num_ranks - 1, num_ranks)
    )
    words = said("ddp.law" if goes_back else "ddp.only_forward")
    count = 2 if goes_back else 0
    law = Law(Fraction(count), words, SOURCE, count * scale.a_pass)
    calls: list[Movement] = []
    causes: list[Deviation] = []
    left_to: dict[Purpose, str] = {}
    num_reduced = 0
    for place, held in enumerate(taking_part):
        is_synced = place == 0 or flag(taking_part[place - 1], "reduces")
        calls += _buffers(held, number(held, "buffer_syncs", int(is_synced)))
        if passes(held)[1] and flag(held, "reduces"):
            num_reduced += 1
            reduced, why = _reduce(held, scale, is_first=num_reduced == 1, left_to=left_to)
            calls += reduced
            causes += why
    if goes_back and not num_reduced:
        causes.append(
            Deviation(
                Cause.NOT_REDUCED,
                -law.sent_bytes,
                said("ddp.not_reduced"),
            )
        )
    buffers = sum((c.ring_share() for c in calls if c.op is Op.BROADCAST), Fraction(0))
    causes.append(
        Deviation(
            Cause.BUFFERS,
            buffers,
            said("ddp.buffers", rank=strategy.ranks[0]),
        )
    )
    return Plan(
        system=NAME,
        name=strategy.name,
        title=NAME,
        ranks=strategy.ranks,
        law=law,
        law_name="data parallel",
        formula=f"{count}{PSI}(N-1)/N",
        scale=scale,
        calls=tuple(calls),
        causes=tuple(causes),
        left_to=left_to,
        num_parameters=sum(one.elements for one in parameters),
    )


def _reduced_last(micro_steps: Held) -> Held:
    """In a pipeline, DDP reduces in the last backward of the step."""
    last = len(micro_steps) - 1
    return tuple(
        replace(one, options=one.options | {"reduces": place == last})
        for place, one in enumerate(micro_steps)
    )


def _buffers(strategy: Strategy, num_syncs: int) -> list[Movement]:
    """DDP broadcasts buffers before a forward, unless the previous one prepared no reduction."""
    return [
        Movement(
            phase=Phase.FORWARD,
            purpose=Purpose.BROADCAST_BUFFERS,
            op=Op.BROADCAST,
            ranks=strategy.ranks,
            elements=elements,
            element_bytes=element_bytes_of(dtype),
            root=strategy.ranks[0],
            times=num_syncs,
        )
        for dtype, elements in number_map(strategy, "buffer_elements").items()
        if elements and num_syncs
    ]


def _reduce(
    strategy: Strategy, scale: Scale, *, is_first: bool, left_to: dict[Purpose, str]
) -> tuple[list[Movement], list[Deviation]]:
    """One reduction of all buckets, and the causes of its deviation from 2 Psi."""
    parameters = parameters_of(strategy)
    ignored = {one.name for one in parameters} & set(texts(strategy, "ignored"))
    trainable = [one for one in parameters if one.trainable and one.name not in ignored]
    buckets = _buckets(strategy, trainable)
    never_full = _never_full(strategy)
    hook = text(strategy, "comm_hook")
    narrow = next((size for name, size in _HALF_HOOKS.items() if name in hook), None)
    if narrow is None and hook.rpartition(".")[2] not in _PLAIN_HOOKS:
        left_to[Purpose.REDUCE_GRADIENTS] = said("ddp.hook", hook=hook)
        words = said("ddp.replaces", hook=hook)
        return [], [Deviation(Cause.HOOK, -2 * scale.a_pass, words)] if is_first else []
    calls = []
    own_bytes = sent_bytes = unsent_bytes = 0
    for place, (elements, own) in enumerate(buckets):
        size = own if narrow is None else min(narrow, own)
        own_bytes += elements * own
        sent_bytes += elements * size
        if never_full is not None and place >= never_full:
            unsent_bytes += elements * size
            continue
        calls.append(
            Movement(
                phase=Phase.BACKWARD,
                purpose=Purpose.REDUCE_GRADIENTS,
                op=Op.ALL_REDUCE,
                ranks=strategy.ranks,
                elements=elements,
                element_bytes=size,
                unit=f"bucket {place}",
            )
        )
    both = 2 * scale.share
    frozen = [one for one in parameters if not one.trainable]
    left_out = [one for one in parameters if one.trainable and one.name in ignored]
    odd = own_bytes - bytes_of(trainable)
    causes = [
        Deviation(
            Cause.FROZEN_PARAMETERS,
            -both * bytes_of(frozen),
            said("ddp.frozen", count=format_exact(_elements_of(frozen))),
        ),
        Deviation(
            Cause.NOT_REDUCED,
            -both * bytes_of(left_out),
            said(
                "ddp.ignored",
                names=_names(one.name for one in left_out),
                count=format_exact(_elements_of(left_out)),
            ),
        ),
        Deviation(
            Cause.BUCKETS,
            both * odd,
            said("ddp.buckets"),
        ),
        Deviation(
            Cause.REDUCTION_DTYPE,
            both * (sent_bytes - own_bytes),
            said("ddp.narrow", hook=hook, size=narrow),
        ),
    ]
    if never_full is not None:
        causes.append(
            Deviation(Cause.NEVER_READY, -both * unsent_bytes, _why_never(strategy, never_full))
        )
    if not is_first:
        causes.append(
            Deviation(
                Cause.REDUCED_AGAIN,
                2 * scale.a_pass,
                said("ddp.again"),
            )
        )
    return calls, causes


def _never_full(strategy: Strategy) -> int | None:
    """The first bucket whose reduction a parameter without a gradient prevents.

    Buckets are reduced in order, so no later one is reduced either.
    """
    absent = set(texts(strategy, "without_gradient"))
    named = enumerate(name_lists(strategy, "bucket_parameters"))
    return next((place for place, names in named if absent.intersection(names)), None)


def _why_never(strategy: Strategy, place: int) -> str:
    """The parameters without a gradient, the consequence, and advice."""
    absent = texts(strategy, "without_gradient")
    finds = flag(strategy, "finds_unused", default=False)
    return said(
        "ddp.never_full_found" if finds else "ddp.never_full",
        names=_names(absent),
        count=len(absent),
        bucket=place,
        averaged=said("ddp.none_averaged" if not place else "ddp.later_not_averaged", bucket=place),
    )


def _names(names: Iterable[str]) -> str:
    """The first ones, and the number of the others."""
    every = list(names)
    more = len(every) - _MOST_NAMED
    if more > 1:
        every = [*every[:_MOST_NAMED], said("ddp.more", count=more)]
    return listed(every)


def _elements_of(parameters: Iterable[Parameter]) -> int:
    return sum(one.elements for one in parameters)


def _buckets(strategy: Strategy, trainable: Sequence[Parameter]) -> list[tuple[int, int]]:
    """Elements of each bucket, and bytes per element: a bucket has gradients of one dtype."""
    sizes = numbers(strategy, "buckets")
    named = name_lists(strategy, "bucket_parameters")
    dtype_of = {one.name: one.dtype for one in trainable}
    if len(named) == len(sizes):
        dtypes = [next((dtype_of[n] for n in names if n in dtype_of), "") for names in named]
    else:
        dtypes = [""] * len(sizes)
    common = set(dtype_of.values())
    if not all(dtypes) and len(common) > 1:
        raise ConfigError(
            f"DDP of {strategy.name!r} has parameters in {', '.join(sorted(common))}, "
            "but the trace does not record the bucket of each parameter"
        )
    usual = next(iter(common), "float32")
    return [
        (elements, element_bytes_of(dtype or usual))
        for elements, dtype in zip(sizes, dtypes, strict=True)
    ]
