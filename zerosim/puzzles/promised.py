"""What a puzzle promises, in numbers, before anybody has written a program.

The bounds are the judge's own: formulas of `puzzle.toml` over theory, with the sizes that the case
says of itself. A case needs PyTorch; what each has said is written down in `sizes.json` by

    python -m zerosim.puzzles.sizes

so that a page has the numbers where there is none. A test holds them against the judge's.
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
"""What is looked at of every program."""
BOUNDED = ("crossing", "sent", "rounds", "num_calls", "held", "turns", "overlap")
ASKED = ("calls", "contents", "values", *BOUNDED)
"""What tells a right program from one that only runs, in the order in which it is looked at."""
LEAST = frozenset({"overlap"})
"""Of which a bound is the least, not the most."""
SIZES = FOLDER / "sizes.json"


@dataclass(frozen=True, slots=True)
class Bound:
    """What a program may take at most, or has to do at least.

    Attributes:
        check: which one asks for it.
        what: bytes sent, bytes held, rounds ...
        low, high: the same, unless it is another one for each rank.
        formula: as it stands in `puzzle.toml`.
    """

    check: str
    what: str
    low: int
    high: int
    formula: str

    @property
    def is_least(self) -> bool:
        """Whether it is the least that must be."""
        return self.check in LEAST


def is_asked(check: str, promise: Promise) -> bool:
    """Whether a puzzle asks for a check."""
    return check in ALWAYS or bool(getattr(promise, check))


def asked_of(promise: Promise) -> tuple[str, ...]:
    """The checks by which a right program is known from one that only runs."""
    return tuple(check for check in ASKED if is_asked(check, promise))


def check_words(check: str, promise: Promise) -> str:
    """What holds if a program passes a check."""
    is_exact = check == "values" and promise.exact
    return words("checks.exact" if is_exact else f"checks.{check}")


def bounds_of(puzzle: Puzzle) -> tuple[Bound, ...]:
    """What is promised in numbers, in the order in which it is looked at."""
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
