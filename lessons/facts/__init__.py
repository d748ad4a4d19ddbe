"""The terms of an answer: the numbers of recorded runs, and of theory.

Every public method of `Facts` is a name that a question's expression may call. Runs are named as in
`lessons.recordings`. Values are bytes unless the name says otherwise, of rank 0 by default, in the
last complete iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from zerosim.lessons.facts.activations import ActivationFacts
from zerosim.lessons.facts.claims import Claims
from zerosim.lessons.facts.faults import FaultFacts
from zerosim.lessons.facts.functions import Functions
from zerosim.lessons.facts.hops import HopFacts
from zerosim.lessons.facts.layouts import LayoutFacts
from zerosim.lessons.facts.mixed_precision import Scaling
from zerosim.lessons.facts.nccl import NcclFacts
from zerosim.lessons.facts.patterns import Patterns
from zerosim.lessons.facts.pipeline import Pipeline
from zerosim.lessons.facts.predicted import PredictionFacts
from zerosim.lessons.facts.programs import Programs
from zerosim.lessons.facts.set_up import SetUp
from zerosim.lessons.facts.tiers import Tiers
from zerosim.lessons.facts.time import Time
from zerosim.lessons.facts.told import Told


class Facts(
    Pipeline,
    Programs,
    Functions,
    ActivationFacts,
    Tiers,
    HopFacts,
    NcclFacts,
    Time,
    PredictionFacts,
    LayoutFacts,
    Scaling,
    Patterns,
    SetUp,
    Claims,
    FaultFacts,
    Told,
):
    """The facts of some recordings."""

    def names(self) -> Mapping[str, Callable[..., Any]]:
        """The functions that an expression may call, by name."""
        own = {
            name: getattr(self, name)
            for name in dir(self)
            if not name.startswith("_") and name != "names"
        }
        return own | {
            "abs": abs,
            "len": len,
            "max": max,
            "min": min,
            "round": round,
            "str": str,
            "sum": sum,
        }
