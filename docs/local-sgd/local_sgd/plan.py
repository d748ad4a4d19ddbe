"""The law of local SGD: 2 Psi every H steps, and nothing between."""

from __future__ import annotations

from fractions import Fraction

from zerosim.base.quantities import PSI
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.theory.causes import Law
from zerosim.theory.movement import Movement
from zerosim.theory.programs.options import number, parameters_of
from zerosim.theory.programs.plan import Plan, Scale, bytes_of, element_bytes_of
from zerosim.theory.programs.steps import StrategyStep

SOURCE = "Stich, arXiv 1805.09767, section 1"


def plan(asked: StrategyStep) -> Plan:
    """What a rank calls in one step."""
    strategy, parameters = asked.strategy, parameters_of(asked.strategy)
    num_ranks, every = len(strategy.ranks), number(strategy, "every", 1)
    since = asked.iteration - number(strategy, "first")
    averages = since >= 0 and since % every == 0
    share = Fraction(num_ranks - 1, num_ranks)
    scale = Scale(unit=PSI, unit_bytes=bytes_of(parameters), share=share)
    count = 2 if averages else 0
    average = Movement(
        phase=Phase.UPDATE,
        purpose=Purpose.AVERAGE_PARAMETERS,
        op=Op.ALL_REDUCE,
        ranks=strategy.ranks,
        elements=strategy.num_parameters,
        element_bytes=element_bytes_of(parameters[0].dtype),
    )
    return Plan(
        system=strategy.system,
        name=strategy.name,
        title=strategy.system,
        ranks=strategy.ranks,
        law=Law(
            Fraction(count),
            f"all-reduce of the parameters every {every} steps",
            SOURCE,
            count * scale.a_pass,
        ),
        law_name="local SGD",
        formula=f"{count}{PSI}(N-1)/N",
        scale=scale,
        calls=(average,) if averages else (),
        num_parameters=strategy.num_parameters,
    )
