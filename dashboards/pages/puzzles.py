"""Puzzles: write it yourself. The list of all, and what the page of one shows.

What is promised comes from `zerosim.puzzles.promised`: the judge's own formulas, no PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from zerosim.base.language import typeset
from zerosim.dashboards import texts
from zerosim.puzzles.promised import Bound, asked_of, bounds_of, check_words
from zerosim.puzzles.puzzle import Puzzle, puzzles

PATH = "/puzzles"
TITLE = "pages.puzzles"


def words() -> Mapping[str, Mapping[str, Any]]:
    """What these pages say themselves."""
    return texts.words("puzzles")


@dataclass(frozen=True, slots=True)
class Promised:
    """One line of what a right program does.

    Attributes:
        words: what it asks.
        bound: in numbers; None where it is no number.
    """

    words: str
    bound: Bound | None


@dataclass(frozen=True, slots=True)
class PuzzlePage:
    """A puzzle as its page shows it.

    Attributes:
        paragraphs: the task in words, without its title.
        promised: what the judge looks at beside that the program runs.
        next: the puzzle after it; None after the last.
    """

    puzzle: Puzzle
    paragraphs: tuple[str, ...]
    promised: tuple[Promised, ...]
    next: Puzzle | None

    @property
    def command(self) -> str:
        """What prints the task and writes its file, as a person types it."""
        return f"zerosim puzzle {self.puzzle.name}"

    @property
    def check(self) -> str:
        """What checks a program, likewise."""
        return f"{self.command} --check {self.puzzle.file_name}"


def page_of(puzzle: Puzzle) -> PuzzlePage:
    """What the page of a puzzle shows."""
    bounds = {one.check: one for one in bounds_of(puzzle)}
    promised = [
        Promised(check_words(check, puzzle.promise), bounds.get(check))
        for check in asked_of(puzzle.promise)
    ]
    following = [one for one in puzzles() if one.number == puzzle.number + 1]
    return PuzzlePage(
        puzzle=puzzle,
        paragraphs=_paragraphs(puzzle.words),
        promised=tuple(promised),
        next=following[0] if following else None,
    )


def address_of(puzzle: Puzzle) -> str:
    """Where a puzzle is."""
    return f"{PATH}/{quote(puzzle.name)}"


def _paragraphs(text: str) -> tuple[str, ...]:
    """A task after its title; lines are broken by the page."""
    return tuple(typeset(" ".join(one.split())) for one in text.split("\n\n")[1:])
