"""Figures of mixed precision and loss scaling. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part
from zerosim.memory import MODEL_STATES
from zerosim.quantities import PSI


def precisions(facts: Facts) -> Bars:
    """Model states with Adam in each precision, by theory, undivided."""
    bars = tuple(
        Bar(
            label,
            tuple(Part(str(role), facts.bytes_a_parameter(dtype, role)) for role in MODEL_STATES),
        )
        for label, dtype in (("fp32 throughout", "fp32"), ("fp16, mixed", "fp16"))
    )
    return Bars("Model states with Adam on a single rank, by theory", "bytes a parameter", bars)


def scaling(facts: Facts, run: str) -> FigureTable:
    """Iteration by iteration: the loss, its scale, whether all updated, and what was sent."""
    whole = facts.psi(run) * facts.element_bytes(run)
    rows = []
    for iteration in facts.iterations(run):
        ranks = facts.updating_ranks(run, iteration)
        rows.append(
            (
                str(iteration),
                f"{facts.metric(run, 'loss', iteration):,.3f}",
                f"{facts.scale(run, iteration):,.0f}",
                f"{len(ranks)} of {facts.num_ranks(run)}",
                f"{facts.sent_in(run, iteration) / whole:.3f}",
            )
        )
    columns = ("iteration", "loss", "loss scale", "ranks that update", f"rank 0 sends, {PSI}")
    title = "Losses and scales as the program reported them, updates and messages as traced"
    return FigureTable(title, columns, tuple(rows))
