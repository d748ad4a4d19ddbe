"""The promise of a puzzle, in numbers, before any program exists.

The bounds are those of the check: formulas of `puzzle.toml` over theory, with the sizes of the
case. A
case needs PyTorch; the sizes of each are stored in `sizes.json` by

    python -m zerosim.puzzles.sizes

so that a page has the numbers without PyTorch. A test compares them with the judge's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from zerosim.puzzles.bounds import bound
from zerosim.puzzles.puzzle import FOLDER, Promise, Puzzle
from zerosim.puzzles.wording import words

ALWAYS = ("loads", "messages", "ends", "values")
"""The checks of every program."""
BOUNDED = ("crossing", "sent", "rounds", "num_calls", "held", "turns", "overlap")
ASKED = ("calls", "contents", "values", *BOUNDED)
"""The checks that distinguish a correct program from one that only runs, in order."""
LEAST = frozenset({"overlap"})
"""Checks whose bound is a minimum, not a maximum."""
SIZES = FOLDER / "sizes.json"


@dataclass(frozen=True, slots=True)
class Bound:
    """The maximum cost of a program, or its minimum work.

    Attributes:
        check: the check.
        what: the quantity: bytes sent, bytes held, rounds ...
        low, high: the range over the ranks; equal if all ranks have the same bound.
        formula: the formula in `puzzle.toml`.
    """

    check: str
    what: str
    low: int
    high: int
    formula: str

    @property
    def is_least(self) -> bool:
        """Whether it is a minimum."""
        return self.check in LEAST


def is_asked(check: str, promise: Promise) -> bool:
    """Whether a puzzle has a check."""
    return check in ALWAYS or bool(getattr(promise, check))


def asked_of(promise: Promise) -> tuple[str, ...]:
    """The checks that distinguish a correct program from one that only runs."""
    return tuple(check for check in ASKED if is_asked(check, promise))


def check_words(check: str, promise: Promise) -> str:
    """The property that a passed check shows."""
    is_exact = check == "values" and promise.exact
    return words("checks.exact" if is_exact else f"checks.{check}")


def bounds_of(puzzle: Puzzle) -> tuple[Bound, ...]:
    """The promise in numbers, in order of the checks."""
    sizes = _sizes()[puzzle.name]
    found = []
    for check in BOUNDED:
        formula = getattr(puzzle.promise, check)
        if formula:
            values = [bound(formula, puzzle.ranks, sizes, rank) for rank in range(puzzle.ranks)]
            said = words(f"scores.{check}")
            found.append(Bound(check, said, min(values), max(values), formula))
    return tuple(found)


@cache
def _sizes() -> Mapping[str, Mapping[str, int]]:
    plain: Mapping[str, Mapping[str, int]] = json.loads(SIZES.read_text(encoding="utf-8"))
    return plain
