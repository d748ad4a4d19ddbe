"""Figures of nodes: inter-node and intra-node traffic."""

from __future__ import annotations

from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said

_PARTS = (
    ("forward", "forward", "gather parameters"),
    ("backward", "backward", "gather parameters"),
    ("reduced", "backward", "reduce gradients"),
)


def leaves(facts: Facts, *runs: str) -> Bars:
    """Traffic of a node's ranks to other nodes in a step."""
    bars = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        parts = tuple(
            BarPart(name, facts.leaves(run, phase, purpose) / unit)
            for name, phase, purpose in _PARTS
        )
        bars.append(Bar(facts.title(run), parts, facts.node_law(run) / unit))
    return Bars(said("leaves.title"), PSI, tuple(bars), said("leaves.law"))


def both(facts: Facts, *runs: str) -> FigureTable:
    """Traffic between and within nodes, and a rank's memory for it."""
    rows = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        rows.append(
            (
                facts.title(run),
                facts.node_words(run),
                f"{facts.node_law(run):,.0f}",
                f"{facts.leaves(run):,}",
                f"{facts.leaves(run) / unit:.3f}{PSI}",
                f"{facts.stays(run) / unit:.3f}{PSI}",
            )
        )
    return FigureTable(said("both.title"), each("both.columns"), tuple(rows))
