"""Figures of gathered parameters and their lifetimes."""

from __future__ import annotations

from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars
from zerosim.lessons.views.wording import said


def gathered(facts: Facts, run: str) -> Bars:
    """Parameters on rank 0 at the start of each unit's computation."""
    whole = facts.psi(run) * facts.element_bytes(run)
    bars = tuple(
        Bar(
            label,
            (
                BarPart("own shards", facts.held_at(run, at, "parameters") / whole),
                BarPart("gathered", facts.held_at(run, at, "gathered parameters") / whole),
            ),
        )
        for at, label in facts.moments(run, "forward", "backward")
        if at != "end"
    )
    return Bars(said("gathered.title"), PSI, bars)
