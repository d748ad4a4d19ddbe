"""Figures of the four stages side by side."""

from __future__ import annotations

from zerosim.base.config import STAGE_NAMES, STAGES
from zerosim.base.language import term
from zerosim.base.quantities import PSI
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, BarPart, Bars, FigureTable
from zerosim.lessons.views.wording import each, said
from zerosim.schema.memory import MODEL_STATES

_BILLIONS, _RANKS, _MICRO_STEPS = 7.5, 64, 4


def figure_one(facts: Facts) -> Bars:
    """The first figure of the ZeRO paper: model states of 7.5 billion parameters on 64 ranks."""
    bars = tuple(
        Bar(
            term(STAGE_NAMES[stage]),
            tuple(
                BarPart(str(role), _BILLIONS * facts.role_states(stage, _RANKS, role))
                for role in MODEL_STATES
            ),
            facts.states(stage, _RANKS, _BILLIONS),
        )
        for stage in STAGES
    )
    title = said("figure_one.title", billions=_BILLIONS, ranks=_RANKS)
    return Bars(title, "GB", bars, said("figure_one.law"))


def trade(facts: Facts) -> FigureTable:
    """Memory and traffic of each stage, by law, with advantages and disadvantages."""
    rows = tuple(
        (
            term(STAGE_NAMES[stage]),
            facts.states_law(stage),
            f"{facts.law_psi(stage):.0f}{PSI}",
            f"{facts.law_psi(stage, _MICRO_STEPS):.0f}{PSI}",
            speaks_for,
            against,
        )
        for stage, speaks_for, against in zip(
            STAGES, each("trade.for"), each("trade.against"), strict=True
        )
    )
    columns = each("trade.columns", micro_steps=_MICRO_STEPS)
    return FigureTable(said("trade.title"), columns, rows)
