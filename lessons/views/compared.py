"""Figures of the four stages beside each other. Imports `lessons.facts` and `views.model`."""

from __future__ import annotations

from zerosim.config import STAGE_NAMES, STAGES
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Bar, Bars, FigureTable, Part
from zerosim.memory import MODEL_STATES
from zerosim.quantities import PSI

_BILLIONS, _RANKS, _MICRO_STEPS = 7.5, 64, 4
_TRADE = {
    0: ("simple, and right for any optimizer", "all model states on every rank"),
    1: ("as fast as data parallel, also with micro-steps", "whole gradients and parameters stay"),
    2: ("no whole gradient is kept", "each micro-step reduces; parameters stay whole"),
    3: ("the model may be larger than a device", "half as much traffic again, and small messages"),
}
"""What speaks for a stage, and what it costs; the numbers beside it are the laws'."""


def figure_one(facts: Facts) -> Bars:
    """The first figure of the ZeRO paper: model states of 7.5 billion parameters on 64 ranks."""
    bars = tuple(
        Bar(
            STAGE_NAMES[stage],
            tuple(
                Part(str(role), _BILLIONS * facts.role_states(stage, _RANKS, role))
                for role in MODEL_STATES
            ),
            facts.states(stage, _RANKS, _BILLIONS),
        )
        for stage in STAGES
    )
    title = f"Model states of {_BILLIONS} billion parameters on {_RANKS} ranks, by law, predicted"
    return Bars(title, "GB", bars, "the paper's law")


def trade(facts: Facts) -> FigureTable:
    """What each stage keeps and sends, by law, and what speaks for and against it."""
    rows = tuple(
        (
            STAGE_NAMES[stage],
            facts.states_law(stage),
            f"{facts.law_psi(stage):.0f}{PSI}",
            f"{facts.law_psi(stage, _MICRO_STEPS):.0f}{PSI}",
            *_TRADE[stage],
        )
        for stage in STAGES
    )
    columns = ("", "keeps, bytes", "sends", f"{_MICRO_STEPS} micro-steps", "for it", "against it")
    return FigureTable("What each stage brings, and what it costs, by law", columns, rows)
