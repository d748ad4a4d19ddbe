"""Puzzles: the list of all, and the contents of one's page.

The promise comes from `zerosim.puzzles.promised`: the judge's own formulas, without PyTorch.
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
    """The texts of these pages."""
    return texts.words("puzzles")


@dataclass(frozen=True, slots=True)
class Promised:
    """One line about a correct program.

    Attributes:
        words: the requirement.
        bound: in numbers; None if it has none.
    """

    words: str
    bound: Bound | None


@dataclass(frozen=True, slots=True)
class PuzzlePage:
    """A puzzle as its page shows it.

    Attributes:
        paragraphs: the task in words, without its title.
        promised: the checks, except the one that the program runs.
        next: the puzzle after it; None after the last.
    """

    puzzle: Puzzle
    paragraphs: tuple[str, ...]
    promised: tuple[Promised, ...]
    next: Puzzle | None

    @property
    def command(self) -> str:
        """The command that prints the task and writes its file."""
        return f"zerosim puzzle {self.puzzle.name}"

    @property
    def check(self) -> str:
        """The command that checks a program."""
        return f"{self.command} --check {self.puzzle.file_name}"


def page_of(puzzle: Puzzle) -> PuzzlePage:
    """The contents of a puzzle's page."""
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
    """The address of a puzzle."""
    return f"{PATH}/{quote(puzzle.name)}"


def _paragraphs(text: str) -> tuple[str, ...]:
    """A task after its title; lines are broken by the page."""
    return tuple(typeset(" ".join(one.split())) for one in text.split("\n\n")[1:])
