"""The stored part of an answer in a room, and the counting of answers."""

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
    """One answer: its text, whether it is right, and its mistake; "" if unknown."""

    text: str
    is_right: bool
    misconception: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Vote:
    """A student's answers to a question: the first one, and the current one."""

    first: GivenAnswer
    latest: GivenAnswer


@dataclass(frozen=True, slots=True)
class Counted:
    """The number of students whose first answer it was, and of those whose current answer it is."""

    answer: GivenAnswer
    first: int
    latest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The answers of a class to a question.

    Attributes:
        lesson, question: ids; "" without a current one.
        reveal: whether the lecturer shows the answers.
        solved: whether the right one is shown.
        num_students: number of students in the room now.
        num_answered: number of students with an answer to this question.
        left_s: time until the room is forgotten.
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
    """Equal answers merged, in the order of their first occurrence."""
    kept = tuple(votes)
    first = Counter(vote.first for vote in kept)
    latest = Counter(vote.latest for vote in kept)
    return tuple(Counted(one, first[one], latest[one]) for one in dict.fromkeys([*first, *latest]))


def is_name(given: object) -> TypeGuard[str]:
    """Whether this can be the id of a lesson or a question."""
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


def tidy(text: str) -> str:
    """A text as it is stored: one line, short enough for a projector."""
    cut = text[:LONGEST_ANSWER]
    return "".join(char if char.isprintable() else " " for char in cut).strip()
