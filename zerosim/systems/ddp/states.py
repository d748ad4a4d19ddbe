"""DDP: everything is whole on each rank."""

from __future__ import annotations

from zerosim.systems.ddp import NAME
from zerosim.theory.programs.divided import ToldStates, whole
from zerosim.theory.programs.options import flag, parameters_of
from zerosim.theory.programs.states import AskedStates, KeptParts
from zerosim.theory.wording import said

BESIDE = (frozenset[str](),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank."""
    strategy = asked.own[NAME]
    # older traces do not record which parameters have a gradient
    told = ToldStates(strategy)
    tells = "no_gradient" in strategy.options or not flag(strategy, "finds_unused", default=False)
    return KeptParts(
        name=said("states.ddp"),
        parts=[told.of(one.name, whole(one), one.shape) for one in parameters_of(strategy)],
        unknown="" if tells else said("states.only_loss"),
        tells_states=tells,
        updates_in_backward=flag(strategy, "used_at_once", default=False),
    )
