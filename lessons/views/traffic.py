"""Figures of traffic."""

from __future__ import annotations

from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.events import Purpose


def traffic(facts: Facts, *runs: str) -> Bars:
    """Requested traffic of rank 0 in a step, by phase, in Psi."""
    bars = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        parts = tuple(
            BarPart(phase, facts.sent(run, phase=phase) / unit)
            for phase in ("forward", "backward", "update")
        )
        bars.append(Bar(facts.title(run), parts, facts.law_sent(run) / unit))
    return Bars(said("traffic.title"), PSI, tuple(bars), said("traffic.law"))


def purposes(facts: Facts, *runs: str) -> Bars:
    """Traffic of rank 0 in a step, by purpose."""
    bars = []
    for run in runs:
        unit = facts.psi(run) * facts.element_bytes(run)
        parts = tuple(
            BarPart(str(purpose), facts.sent(run, purpose=purpose) / unit)
            for purpose in (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
        )
        bars.append(Bar(facts.title(run), parts, facts.law_sent(run) / unit))
    return Bars(said("purposes.title"), PSI, tuple(bars), said("traffic.law"))


def ledgers(facts: Facts, *runs: str) -> FigureTable:
    """The law, the requested bytes, and the kernel's count."""
    rows = tuple(
        (
            facts.title(run),
            f"{facts.law_sent(run):,.0f}",
            f"{facts.sent(run):,}",
            f"{facts.wire(run):,}",
            f"{facts.calls(run):,}",
        )
        for run in runs
    )
    return FigureTable(said("ledgers.title"), each("ledgers.columns"), rows)


def micro_steps(facts: Facts, *runs: str) -> Bars:
    """Communication of rank 0 in each micro-step, by purpose; the last one updates."""
    bars = []
    for run in runs:
        count = facts.micro_steps(run)
        for number in range(count):
            parts = tuple(
                BarPart(str(purpose), facts.payload_in(run, number, purpose))
                for purpose in (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
            )
            label = said("micro_steps.bar", run=facts.title(run), number=number + 1, count=count)
            bars.append(Bar(label, parts))
    return Bars(said("micro_steps.title"), said("micro_steps.unit"), tuple(bars))
