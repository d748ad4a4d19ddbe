"""The figures of lessons: bars, tables and drawings, printed by a script and drawn by the page.

A view is a pure function of facts and the names of runs.
"""

from __future__ import annotations

from collections.abc import Callable

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.activations import kept, saved, variants
from zerosim.lessons.views.addresses import addresses
from zerosim.lessons.views.blocks import blocks
from zerosim.lessons.views.claims import claim, verdicts
from zerosim.lessons.views.compared import figure_one, trade
from zerosim.lessons.views.faults import endings, orders, session, verdict
from zerosim.lessons.views.functions import asked, way
from zerosim.lessons.views.gathered import gathered
from zerosim.lessons.views.hops import hops, shares
from zerosim.lessons.views.journey import journey
from zerosim.lessons.views.layouts import axes, grids, spans
from zerosim.lessons.views.ledgers import causes, excess
from zerosim.lessons.views.matrices import block, two_cuts
from zerosim.lessons.views.memory import gradients, moments, roles, states
from zerosim.lessons.views.mixed_precision import formats, precisions, scaling, updates
from zerosim.lessons.views.model import Bar, BarPart, Bars, Drawing, FigureTable, View
from zerosim.lessons.views.nccl import bucketed, clocks, protocols
from zerosim.lessons.views.nodes import both, leaves
from zerosim.lessons.views.parallel import all_reduces, messages, slots, stages
from zerosim.lessons.views.patterns import broadcasts, senders, tree, trees
from zerosim.lessons.views.predicted import changes, scales
from zerosim.lessons.views.programs import divided, handed, laws, peaks, profiles
from zerosim.lessons.views.set_up import by_rank, sent_by_rank, set_up_calls, set_ups
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
from zerosim.lessons.views.told import keys, told
from zerosim.lessons.views.traffic import ledgers, micro_steps, purposes, traffic

__all__ = ["VIEWS", "Bar", "BarPart", "Bars", "Drawing", "FigureTable", "View", "view"]

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
    "micro_steps": micro_steps,
    "gathered": gathered,
    "causes": causes,
    "excess": excess,
    "compute": compute,
    "budget": budget,
    "overlap": overlap,
    "path": path,
    "scales": scales,
    "changes": changes,
    "axes": axes,
    "grids": grids,
    "spans": spans,
    "formats": formats,
    "updates": updates,
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
    "two_cuts": two_cuts,
    "block": block,
    "addresses": addresses,
    "senders": senders,
    "broadcasts": broadcasts,
    "tree": tree,
    "trees": trees,
    "kept": kept,
    "saved": saved,
    "variants": variants,
    "set_ups": set_ups,
    "set_up_calls": set_up_calls,
    "by_rank": by_rank,
    "sent_by_rank": sent_by_rank,
    "figure_one": figure_one,
    "trade": trade,
    "journey": journey,
    "blocks": blocks,
    "claim": claim,
    "verdicts": verdicts,
    "endings": endings,
    "orders": orders,
    "verdict": verdict,
    "session": session,
    "asked": asked,
    "way": way,
    "keys": keys,
    "told": told,
    "protocols": protocols,
    "bucketed": bucketed,
    "clocks": clocks,
}
"""By the names used in lessons."""


def view(facts: Facts, name: str, *runs: str) -> View:
    """A figure by its name.

    Raises:
        ConfigError: there is none of this name, or no such run.
    """
    if name not in VIEWS:
        raise ConfigError(f"view is {name!r}: expected one of {', '.join(VIEWS)}")
    return VIEWS[name](facts, *runs)
