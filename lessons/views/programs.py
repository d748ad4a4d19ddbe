"""Figures of implementations side by side."""

from __future__ import annotations

from zerosim.base.language import enumerated, term
from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.events import Purpose
from zerosim.schema.memory import MODEL_STATES, Role

MEGA = 1e6
LEAST = 5e-4
"""Values shown with three digits."""
_PURPOSES = (Purpose.REDUCE_GRADIENTS, Purpose.GATHER_PARAMETERS)
_BESIDE = (Role.GATHERED, Role.BUFFERS, Role.ACTIVATIONS)


def profiles(facts: Facts, *runs: str) -> FigureTable:
    """A row for each implementation, as `zerosim profiles` has it."""
    rows = tuple(
        (
            said("labels.with", run=facts.title(run), what=f"N={facts.num_ranks(run)}"),
            enumerated(
                said("profiles.calls", count=count, op=term(op))
                for op, count in facts.collectives(run).items()
            ),
            f"{facts.asked(run):.3f}",
            f"{facts.in_model(facts.ring(run), run):.3f}",
            f"{facts.in_model(facts.counted(run), run):.3f}",
            f"{facts.most_held(run) / MEGA:.1f}",
        )
        for run in runs
    )
    return FigureTable(said("profiles.title"), each("profiles.columns"), rows)


def laws(facts: Facts, *runs: str) -> FigureTable:
    """The law of each implementation, and the deviations of rank 0, as payload in Psi."""
    rows = []
    for run in runs:
        if not facts.has_law(run):
            rows.append((facts.title(run), "", said("laws.none")))
            continue
        law, num_ranks = facts.law_payloads(run), facts.num_ranks(run)
        rows.append(
            (facts.title(run), f"{law:.0f}", said("laws.of", name=term(facts.law_name(run))))
        )
        for _, size, words in facts.why(run):
            payload = facts.as_payload(facts.in_model(size, run), num_ranks)
            if abs(payload) >= LEAST:
                rows.append(("", f"{payload:+.3f}", words))
    return FigureTable(said("laws.title"), each("laws.columns"), tuple(rows))


def handed(facts: Facts, *runs: str) -> Bars:
    """Communication of rank 0 in a step by purpose, an all-reduce twice, and the law."""
    bars = tuple(
        Bar(
            facts.title(run),
            tuple(
                BarPart(str(each), facts.in_model(facts.passed(run, purpose=each), run))
                for each in _PURPOSES
            ),
            facts.law_payloads(run) if facts.has_law(run) else None,
        )
        for run in runs
    )
    return Bars(said("handed.title"), PSI, bars, said("handed.law"))


def divided(facts: Facts, *runs: str) -> Bars:
    """Communication of each rank in a step, by phase; equal ranks are one bar."""
    bars = []
    for run in runs:
        ranks = range(facts.num_ranks(run))
        made = [_by_phase(facts, run, rank) for rank in ranks]
        if len(set(made)) == 1:
            bars.append(Bar(said("divided.every", run=facts.title(run)), made[0]))
        else:
            bars += [
                Bar(said("labels.with", run=facts.title(run), what=f"rank {rank}"), made[rank])
                for rank in ranks
            ]
    return Bars(said("divided.title"), PSI, tuple(bars))


def peaks(facts: Facts, *runs: str) -> Bars:
    """Memory of rank 0 at its peak."""
    bars = []
    for run in runs:
        psi = facts.model_psi(run)
        roles = (*MODEL_STATES, *_BESIDE)
        parts = tuple(BarPart(str(role), facts.peak(run, 0, role) / psi) for role in roles)
        bars.append(Bar(facts.title(run), parts))
    return Bars(said("peaks.title"), said("memory.unit"), tuple(bars))


def _by_phase(facts: Facts, run: str, rank: int) -> tuple[BarPart, ...]:
    return tuple(
        BarPart(phase, facts.in_model(facts.passed(run, rank, phase), run))
        for phase in ("forward", "backward", "update")
    )
