"""Figures of claims: what is said, theory, a run, and the verdict.

Imports `lessons.facts`, `lessons.claims` and `views.model`.
"""

from __future__ import annotations

from zerosim.lessons.claims import claims
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable


def claim(facts: Facts, name: str) -> FigureTable:
    """One claim, number by number."""
    judged = facts.judgement(name)
    rows = [(judged.claim.found_in, "", "", "", "")]
    for case in judged.tried:
        if case.when:
            rows.append((f"if {case.when}", "", "", "", ""))
        rows += [
            (
                number.of,
                _short(number.says),
                _short(number.theory),
                "no run" if number.measured is None else _short(number.measured),
                "holds" if number.holds else "does not",
            )
            for number in case.numbers
        ]
    columns = (judged.claim.unit, "said", "theory", "measured", "")
    return FigureTable(f"“{judged.claim.said}” is {judged.words}", columns, tuple(rows))


def verdicts(facts: Facts) -> FigureTable:
    """All claims, and what became of them."""
    rows = []
    for name in claims():
        judged = facts.judgement(name)
        numbers = [number for case in judged.tried for number in case.numbers]
        measured = (number.measured for number in numbers)
        rows.append(
            (
                f"“{judged.claim.said}”",
                ", ".join(_short(number.theory) for number in numbers),
                ", ".join("no run" if one is None else _short(one) for one in measured),
                judged.words,
            )
        )
    title = "What is said, what theory says, what the runs of this course measured"
    return FigureTable(title, ("claim", "theory", "measured", "verdict"), tuple(rows))


def _short(value: float) -> str:
    """Four digits, as one compares them."""
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
