"""Figures of the three ledgers. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part
from zerosim.quantities import PSI


def causes(facts: Facts, run: str) -> FigureTable:
    """The way from the formula to the bytes on the wire, cause by cause."""
    rows = [("the law", f"{facts.law_sent(run):,.0f}", "theory")]
    for cause, size, words in facts.causes(run):
        rows.append((f"+ {cause}", f"{size:+,.0f}", words))
    rows += [
        ("the wire", f"{facts.wire(run):,}", "counted by the kernel"),
        ("unexplained", f"{facts.unexplained(run):,}", "on the rank where it is most"),
    ]
    title = f"{facts.title(run)}: what rank 0 sends in one step, from the law to the kernel's count"
    return FigureTable(title, ("", "bytes", "what it is"), tuple(rows))


def excess(facts: Facts, *runs: str) -> Bars:
    """What the kernel sent in a step: the bound of its collectives, and what goes beyond."""
    bars = []
    for run in runs:
        whole = facts.psi(run) * facts.element_bytes(run)
        parts = (
            Part("the bound", facts.theory(run) / whole),
            Part("beyond the bound", facts.excess(run) / whole),
            Part("message framing", facts.framing(run) / whole),
        )
        label = f"{facts.title(run)}, N={facts.num_ranks(run)}"
        bars.append(Bar(label, parts, facts.law_sent(run) / whole))
    title = "What rank 0 sends in one step on Gloo's own collectives, counted by the kernel"
    return Bars(title, PSI, tuple(bars), "the law")
