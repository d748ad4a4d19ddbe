"""Figures of the three ledgers."""

from __future__ import annotations

from zerosim.base.language import term
from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said


def causes(facts: Facts, run: str) -> FigureTable:
    """From the formula to the bytes on the wire, cause by cause."""
    rows = [(said("causes.law"), f"{facts.law_sent(run):,.0f}", said("causes.theory"))]
    for cause, size, words in facts.causes(run):
        rows.append((f"+ {term(cause)}", f"{size:+,.0f}", words))
    rows += [
        (said("causes.wire"), f"{facts.wire(run):,}", said("causes.counted")),
        (said("causes.unexplained"), f"{facts.unexplained(run):,}", said("causes.most")),
    ]
    title = said("causes.title", run=facts.title(run))
    return FigureTable(title, each("causes.columns"), tuple(rows))


def excess(facts: Facts, *runs: str) -> Bars:
    """The kernel's count in a step: the bound of its collectives, and the excess."""
    bars = []
    for run in runs:
        whole = facts.psi(run) * facts.element_bytes(run)
        parts = (
            BarPart("the bound", facts.theory(run) / whole),
            BarPart("beyond the bound", facts.excess(run) / whole),
            BarPart("message framing", facts.framing(run) / whole),
        )
        label = said("labels.with", run=facts.title(run), what=f"N={facts.num_ranks(run)}")
        bars.append(Bar(label, parts, facts.law_sent(run) / whole))
    return Bars(said("excess.title"), PSI, tuple(bars), said("excess.law"))
