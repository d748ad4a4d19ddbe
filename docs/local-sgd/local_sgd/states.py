"""What a rank keeps with local SGD: everything, as if it trained alone."""

from __future__ import annotations

from local_sgd.system import NAME
from zerosim.theory.programs.divided import whole
from zerosim.theory.programs.options import parameters_of
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset[str](),)


def keeps(asked: AskedStates) -> KeptParts:
    """All model states, whole."""
    return KeptParts(name=NAME, parts=[whole(one) for one in parameters_of(asked.own[NAME])])
