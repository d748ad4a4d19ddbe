"""Figures of traffic. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from lessons.facts import Facts
from lessons.views.model import Bar, Bars, Part
from zerosim.quantities import PSI


def traffic(facts: Facts, *runs: str) -> Bars:
    """What rank 0 sends in a step, by phase, in Psi, as PyTorch was asked to send it."""
    bars = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        parts = tuple(
            Part(phase, facts.sent(run, phase=phase) / unit)
            for phase in ("forward", "backward", "update")
        )
        bars.append(Bar(facts.title(run), parts, facts.law_sent(run) / unit))
    return Bars("What rank 0 sends in one step, traced", PSI, tuple(bars), "the law of a ring")
