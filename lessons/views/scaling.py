"""Figures of loss scaling. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from lessons.facts import Facts
from lessons.views.model import Table
from zerosim.quantities import PSI


def scaling(facts: Facts, run: str) -> Table:
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
    return Table(title, columns, tuple(rows))
