"""ZeroRedundancyOptimizer: each rank updates its own parameters and broadcasts them.

Law: stage 1 of ZeRO, 2 Psi per step: reduce-scatter of the gradients, all-gather of the updated
parameters. PyTorch's optimizer works beside DDP, whose all-reduce gives every rank all sums, and
then broadcasts: 3 Psi.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from zerosim.base.quantities import PSI
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.zero_redundancy_optimizer import NAME
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.laws import SOURCES
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import flag, number, parameters_of
from zerosim.theory.programs.plan import (
    Plan,
    Scale,
    bytes_of,
    element_bytes_of,
)
from zerosim.theory.programs.steps import StrategyStep
from zerosim.theory.wording import said

SOURCE = SOURCES[1]


def plan(asked: StrategyStep) -> Plan:
    """The calls of a rank in one step: DDP's calls, which this joins, and the broadcasts of this
    optimizer and of others that joined before.

    Without DDP the law counts the updated parameters only.

    Raises:
        ConfigError: an option or a dtype is not known.
    """
    strategy, data_parallel = asked.strategy, asked.joined
    num_ranks = len(strategy.ranks)
    size_bytes = bytes_of(parameters_of(strategy))
    scale = Scale(unit=PSI, unit_bytes=size_bytes, share=Fraction(num_ranks - 1, num_ranks))
    calls = tuple(
        call
        for place, bundle in enumerate(strategy.bundles)
        for call in _broadcasts(strategy, bundle, place)
    )
    sent = sum((call.ring_share() for call in calls), Fraction(0))
    if data_parallel is None:
        law = Law(Fraction(1), said("zero_redundancy.own_law"), SOURCE, scale.a_pass)
        rest = sent - law.sent_bytes
        return Plan(
            system=NAME,
            name=strategy.name,
            title=NAME,
            ranks=strategy.ranks,
            law=law,
            law_name="ZeRO-1, its update",
            formula=f"{PSI}(N-1)/N",
            scale=scale,
            calls=calls,
            causes=(Deviation(Cause.FROZEN_PARAMETERS, rest, said("zero_redundancy.not_all")),),
            num_parameters=strategy.num_parameters,
        )
    law = replace(
        data_parallel.law,
        words=said("zero_redundancy.law"),
        source=SOURCE,
    )
    words, is_second = said("zero_redundancy.why"), data_parallel.system == NAME
    return replace(
        data_parallel,
        system=NAME,
        title=data_parallel.title if is_second else f"{data_parallel.title} + {NAME}",
        law=law,
        law_name="ZeRO-1",
        calls=(*data_parallel.calls, *calls),
        causes=(
            *data_parallel.causes,
            Deviation(Cause.ALL_REDUCED, sent, words),
        ),
    )


def _broadcasts(strategy: Strategy, bundle: Bundle, place: int) -> list[Movement]:
    """One broadcast per parameter that a rank updates, or one for its whole bucket."""
    owner = number(bundle, "owner", strategy.ranks[place % len(strategy.ranks)])
    moved = [(one.name, one.elements, one.dtype) for one in bundle.parameters]
    if flag(strategy, "bucket_view", default=False):
        sizes: dict[str, int] = {}
        for one in bundle.parameters:
            if one.trainable:
                sizes[one.dtype] = sizes.get(one.dtype, 0) + one.elements
        moved = [(bundle.name, elements, dtype) for dtype, elements in sizes.items()]
    return [
        Movement(
            phase=Phase.UPDATE,
            purpose=Purpose.GATHER_PARAMETERS,
            op=Op.BROADCAST,
            ranks=strategy.ranks,
            elements=elements,
            element_bytes=element_bytes_of(dtype),
            root=owner,
            unit=name,
        )
        for name, elements, dtype in moved
    ]
