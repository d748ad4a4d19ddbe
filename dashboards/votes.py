"""What a room keeps of an answer, and how answers are counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

LONGEST_ANSWER = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """One answer: as it was given, whether it is right, and what was thought; "" if not known."""

    text: str
    is_right: bool
    misconception: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Vote:
    """A student's answers to a question: the prediction, and what came of it."""

    first: GivenAnswer
    latest: GivenAnswer


@dataclass(frozen=True, slots=True)
class Counted:
    """How many gave an answer first, and how many stay with it now."""

    answer: GivenAnswer
    first: int
    latest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a class answered to a question.

    Attributes:
        lesson, question: ids; "" if the class is at none.
        reveal: the lecturer shows the answers.
        solved: and what is right of them.
        num_students: whose page is in the room now.
        num_answered: who answered this question.
        left_s: until the room is forgotten.
    """

    lesson: str
    question: str
    reveal: bool
    solved: bool
    num_students: int
    num_answered: int
    answers: tuple[Counted, ...]
    left_s: float


def count(votes: Iterable[Vote]) -> tuple[Counted, ...]:
    """Equal answers as one, in the order in which they first came."""
    kept = tuple(votes)
    first = Counter(vote.first for vote in kept)
    latest = Counter(vote.latest for vote in kept)
    return tuple(Counted(one, first[one], latest[one]) for one in dict.fromkeys([*first, *latest]))


def is_name(given: object) -> TypeGuard[str]:
    """Whether this can be the id of a lesson or a question."""
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


def tidy(text: str) -> str:
    """A text as it is kept: one line, no longer than a wall shows."""
    cut = text[:LONGEST_ANSWER]
    return "".join(char if char.isprintable() else " " for char in cut).strip()
