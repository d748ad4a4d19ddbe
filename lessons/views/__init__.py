"""The figures of lessons: bars and tables, which a script prints and the page draws.

A view is a pure function of facts and the names of runs. Imports its modules.
"""

from __future__ import annotations

from collections.abc import Callable

from zerosim.errors import ConfigError
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.claims import claim, verdicts
from zerosim.lessons.views.gathered import gathered
from zerosim.lessons.views.hops import hops, shares
from zerosim.lessons.views.ledgers import causes, excess
from zerosim.lessons.views.memory import gradients, moments, roles, states
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part, View
from zerosim.lessons.views.nodes import both, leaves
from zerosim.lessons.views.parallel import all_reduces, messages, slots, stages
from zerosim.lessons.views.programs import divided, handed, laws, peaks, profiles
from zerosim.lessons.views.scaling import precisions, scaling
from zerosim.lessons.views.tiers import (
    checkpoints,
    copies,
    cuts,
    fetches,
    losses,
    pieces,
    sums,
    tiers,
    tiled,
)
from zerosim.lessons.views.time import budget, compute, overlap, path
from zerosim.lessons.views.traffic import ledgers, purposes, traffic

__all__ = ["VIEWS", "Bar", "Bars", "FigureTable", "Part", "View", "view"]

VIEWS: dict[str, Callable[..., View]] = {
    "roles": roles,
    "moments": moments,
    "states": states,
    "gradients": gradients,
    "hops": hops,
    "shares": shares,
    "traffic": traffic,
    "purposes": purposes,
    "ledgers": ledgers,
    "gathered": gathered,
    "causes": causes,
    "excess": excess,
    "compute": compute,
    "budget": budget,
    "overlap": overlap,
    "path": path,
    "precisions": precisions,
    "scaling": scaling,
    "all_reduces": all_reduces,
    "divided": divided,
    "messages": messages,
    "slots": slots,
    "stages": stages,
    "profiles": profiles,
    "laws": laws,
    "handed": handed,
    "peaks": peaks,
    "tiers": tiers,
    "copies": copies,
    "cuts": cuts,
    "losses": losses,
    "checkpoints": checkpoints,
    "sums": sums,
    "pieces": pieces,
    "fetches": fetches,
    "tiled": tiled,
    "leaves": leaves,
    "both": both,
    "claim": claim,
    "verdicts": verdicts,
}
"""By the names that lessons use."""


def view(facts: Facts, name: str, *runs: str) -> View:
    """A figure by its name.

    Raises:
        ConfigError: there is none of this name, or no such run.
    """
    if name not in VIEWS:
        raise ConfigError(f"view is {name!r}: expected one of {', '.join(VIEWS)}")
    return VIEWS[name](facts, *runs)
