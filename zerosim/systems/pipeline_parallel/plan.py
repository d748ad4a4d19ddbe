"""Pipeline parallel: a stage sends its output forward and receives the gradient of it.

Law: b s h per micro-batch and boundary, both ways. Its ranks are idle while the pipeline fills and
drains: (p-1)/(v m) of the computing time alone, (p-1)/(v m + p - 1) of the total time, with v
stages per rank. Source: Y. Huang et al., "GPipe" (arXiv 1811.06965), section 2.3; D. Narayanan et
al., "Efficient Large-Scale Language Model Training on GPU Clusters" (arXiv 2104.04473), section
2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.quantities import format_exact
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import number, numbers, shapes, text, texts
from zerosim.theory.programs.parts import BSH
from zerosim.theory.programs.plan import (
    Bubble,
    Plan,
    Scale,
    element_bytes_of,
    factor,
)
from zerosim.theory.programs.steps import StrategyStep
from zerosim.theory.wording import said

SOURCE = (
    "Huang et al., arXiv 1811.06965, section 2.3; Narayanan et al., arXiv 2104.04473, section 2.2"
)
_KNOWN_BUBBLE = ("GPipe", "1F1B", "LoopedBFS")


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step; the inputs of a stage are the outputs of the previous one.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    strategy, others, rank = asked.strategy, asked.others, asked.rank
    num_microbatches = number(strategy, "num_microbatches", 1)
    rank_of = numbers(strategy, "ranks_by_stage") or list(strategy.ranks)
    outputs = _outputs([*others.values(), strategy])
    own = [index for index, owner in enumerate(rank_of) if owner == rank]
    ways = [way for index in own for way in _ways(index, len(rank_of))]
    first = next((outputs[b] for _, b, _ in ways if b in outputs), [])
    scale = Scale(unit=BSH, unit_bytes=_bytes(first), share=Fraction(1), suffix="")
    calls: list[Movement] = []
    law_bytes, num_sends, unsent = Fraction(0), 0, Fraction(0)
    for purpose, boundary, sends in ways:
        size = Fraction(num_microbatches * _bytes(outputs.get(boundary, [])))
        other = rank_of[boundary + 1] if rank_of[boundary] == rank else rank_of[boundary]
        if sends:
            law_bytes += size
            num_sends += num_microbatches
        if other == rank:
            unsent -= size * sends
            continue
        calls += _messages(
            purpose, outputs.get(boundary, []), rank, other, boundary, num_microbatches, sends=sends
        )
    return Plan(
        system=strategy.system,
        name=strategy.name,
        title=strategy.system,
        ranks=strategy.ranks,
        law=Law(
            Fraction(num_sends),
            said("pipeline.law", unit=BSH, count=num_microbatches),
            SOURCE,
            law_bytes,
            BSH,
        ),
        law_name="pipeline parallel",
        formula=f"{factor(format_exact(num_sends))}{BSH}",
        scale=scale,
        calls=tuple(calls),
        causes=(Deviation(Cause.ONE_RANK, unsent, said("pipeline.neighbours", rank=rank)),),
        bubble=_bubble(strategy, rank_of, num_microbatches),
    )


def order_of_one_stage(strategy: Strategy, rank: int) -> list[Phase]:
    """The order in which a rank with one stage computes its micro-batches, forward and backward.

    Raises:
        ConfigError: it has several stages, or the order of its schedule is not known.
    """
    count = number(strategy, "num_microbatches", 1)
    rank_of = numbers(strategy, "ranks_by_stage") or list(strategy.ranks)
    schedule = text(strategy, "schedule")
    if schedule not in ("GPipe", "1F1B") or rank_of.count(rank) != 1:
        raise ConfigError(
            f"the order in which rank {rank} computes under schedule {schedule!r} is unknown, so "
            "FSDP's gathers are, too: expected GPipe or 1F1B, with one stage a rank"
        )
    # 1F1B fills the pipeline, then alternates one backward and one forward
    ahead = count if schedule == "GPipe" else min(count, len(rank_of) - rank_of.index(rank))
    pairs = [Phase.BACKWARD, Phase.FORWARD] * (count - ahead)
    return [Phase.FORWARD] * ahead + pairs + [Phase.BACKWARD] * ahead


def _outputs(strategies: Sequence[Strategy]) -> dict[int, list[tuple[int, int]]]:
    """Traffic over the boundary behind each stage for one micro-batch: elements, bytes per
    element.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for strategy in strategies:
        for place, bundle in enumerate(strategy.bundles):
            index = number(bundle, "index", place)
            if sizes := list(_sizes(bundle)):
                found[index] = sizes
    return found


def _sizes(bundle: Bundle) -> Iterator[tuple[int, int]]:
    found = shapes(bundle, "output_shapes")
    dtypes = texts(bundle, "dtypes") or ["float32"] * len(found)
    for shape, dtype in zip(found, dtypes, strict=False):
        count = 1
        for size in shape:
            count *= size
        yield count, element_bytes_of(dtype)


def _bytes(sizes: Sequence[tuple[int, int]]) -> int:
    return sum(elements * size for elements, size in sizes)


def _ways(index: int, num_stages: int) -> Iterator[tuple[Purpose, int, bool]]:
    """A stage's messages over its boundaries: purpose, boundary, whether it sends."""
    if index + 1 < num_stages:
        yield Purpose.SEND_ACTIVATIONS, index, True
        yield Purpose.SEND_GRADIENTS, index, False
    if index > 0:
        yield Purpose.SEND_ACTIVATIONS, index - 1, False
        yield Purpose.SEND_GRADIENTS, index - 1, True


def _messages(
    purpose: Purpose,
    sizes: Sequence[tuple[int, int]],
    rank: int,
    other: int,
    boundary: int,
    times: int,
    *,
    sends: bool,
) -> list[Movement]:
    is_forward = purpose is Purpose.SEND_ACTIVATIONS
    return [
        Movement(
            phase=Phase.FORWARD if is_forward else Phase.BACKWARD,
            purpose=purpose,
            op=Op.SEND if sends else Op.RECEIVE,
            ranks=tuple(sorted((rank, other))),
            elements=elements,
            element_bytes=size,
            times=times,
            root=other,
            unit=f"stage {boundary if is_forward == sends else boundary + 1}",
        )
        for elements, size in sizes
    ]


def _bubble(strategy: Strategy, rank_of: Sequence[int], num_microbatches: int) -> Bubble | None:
    """The bubble; None for a schedule that splits backward in two, or if ranks have different
    numbers of stages.
    """
    schedule = text(strategy, "schedule")
    if not any(name in schedule for name in _KNOWN_BUBBLE) or "ZeroBubble" in schedule:
        return None
    num_ranks = len(set(rank_of))
    if len(rank_of) % num_ranks or num_ranks < 2:
        return None
    return Bubble(
        num_ranks=num_ranks,
        num_microbatches=num_microbatches,
        stages_a_rank=len(rank_of) // num_ranks,
    )
