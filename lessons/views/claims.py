"""Figures of claims: the claim, theory, a run, and the verdict."""

from __future__ import annotations

from zerosim.lessons.claims import claims
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable
from zerosim.lessons.views.wording import each, said


def claim(facts: Facts, name: str) -> FigureTable:
    """One claim, number by number."""
    judged = facts.judgement(name)
    rows = [(judged.claim.found_in, "", "", "", "")]
    for case in judged.tried:
        if case.when:
            rows.append((said("claim.if", when=case.when), "", "", "", ""))
        rows += [
            (
                number.of,
                _short(number.says),
                _short(number.theory),
                said("claim.no_run") if number.measured is None else _short(number.measured),
                said("claim.holds" if number.holds else "claim.fails"),
            )
            for number in case.numbers
        ]
    columns = (judged.claim.unit, *each("claim.columns"))
    title = said("claim.title", said=judged.claim.said, words=judged.words)
    return FigureTable(title, columns, tuple(rows))


def verdicts(facts: Facts) -> FigureTable:
    """All claims with their verdicts."""
    rows = []
    for name in claims():
        judged = facts.judgement(name)
        numbers = [number for case in judged.tried for number in case.numbers]
        measured = (number.measured for number in numbers)
        rows.append(
            (
                said("verdicts.claim", said=judged.claim.said),
                ", ".join(_short(number.theory) for number in numbers),
                ", ".join(said("claim.no_run") if one is None else _short(one) for one in measured),
                judged.words,
            )
        )
    return FigureTable(said("verdicts.title"), each("verdicts.columns"), tuple(rows))


def _short(value: float) -> str:
    """Four digits, as one compares them."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
