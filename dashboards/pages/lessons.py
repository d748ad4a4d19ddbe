"""Lessons: the course, and texts common to all pages of lessons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from zerosim.base.language import sibling, typeset
from zerosim.dashboards import texts
from zerosim.dashboards.markdown import to_inline_html, to_linked_html
from zerosim.lessons.course import Lesson, LessonPath
from zerosim.lessons.recordings import HERE

PATH = "/lessons"
TITLE = "pages.lessons"
NOTES = f"{PATH}/notes"
"""The path of the lecturer's notes."""
EMBED = "embed"
"""The query parameter of a replay or graph embedded in a lesson."""
SLIDES = "slides"
"""The query parameter of a lesson that becomes a file of slides for a projector."""
CLAIMS = "claims"
"""The part of a lesson's id that marks a test of a claim about ZeRO."""


def words() -> Mapping[str, Mapping[str, Any]]:
    """The texts of these pages."""
    return texts.words("lessons")


# ------------------------------------------------------------------------------- the course


@dataclass(frozen=True, slots=True)
class Card:
    """A lesson in the list of all."""

    lesson: Lesson
    knows: tuple[str, ...]
    needs: tuple[Lesson, ...]
    is_lab: bool
    num_steps: int
    able: str


def cards(lessons: Sequence[Lesson]) -> tuple[Card, ...]:
    """All lessons, in order."""
    by_id = {lesson.id: lesson for lesson in lessons}
    return tuple(
        Card(
            lesson,
            tuple(map(to_inline_html, lesson.knows)),
            tuple(by_id[each] for each in lesson.needs if each in by_id),
            CLAIMS in lesson.id,
            len(lesson.steps) + any(True for _ in lesson.calls("end")),
            able_after(lesson),
        )
        for lesson in lessons
    )


def able_after(lesson: Lesson) -> str:
    """The learning goals of a lesson, as a sentence of HTML."""
    return to_inline_html(typeset(words()["course"]["able"].format(able=lesson.able)))


@dataclass(frozen=True, slots=True)
class PathCards:
    """A path through the course.

    Attributes:
        minutes: duration of all its lessons.
    """

    path: LessonPath
    title: str
    about: str
    minutes: int
    cards: tuple[Card, ...]


def paths(lessons: Sequence[Lesson]) -> tuple[PathCards, ...]:
    """The paths in order, each with its lessons in theirs."""
    said = words()["paths"]
    found = []
    for path in LessonPath:
        own = tuple(card for card in cards(lessons) if card.lesson.part is path)
        minutes = sum(card.lesson.minutes for card in own)
        if own:
            found.append(PathCards(path, said[path], said[f"{path}_about"], minutes, own))
    return tuple(found)


def address_of(lesson: Lesson) -> str:
    """The address of a lesson."""
    return f"{PATH}/{quote(lesson.id)}"


def notes() -> str:
    """The lecturer's notes: plans, common mistakes, and responses to them."""
    path = HERE / "instructor.md"
    spoken_in = sibling(path)
    return _html_of(spoken_in if spoken_in.exists() else path)


@cache
def _html_of(path: Path) -> str:
    return to_linked_html(path.read_text(encoding="utf-8"))
