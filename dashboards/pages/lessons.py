"""Lessons: teach me. The course, and what all pages of lessons say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from zerosim.base.language import sibling
from zerosim.dashboards import texts
from zerosim.dashboards.markdown import to_inline_html, to_linked_html
from zerosim.lessons.course import Lesson
from zerosim.lessons.recordings import HERE

PATH = "/lessons"
TITLE = "pages.lessons"
NOTES = f"{PATH}/notes"
"""For lecturers."""
EMBED = "embed"
"""In the query of a replay or graph that stands in a lesson."""
SLIDES = "slides"
"""In the query of a lesson that becomes a file: one idea on each, for a wall."""
CLAIMS = "claims"
"""In the id of a lesson that tests what is said of ZeRO."""


def words() -> Mapping[str, Mapping[str, Any]]:
    """What these pages say themselves."""
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
        )
        for lesson in lessons
    )


def address_of(lesson: Lesson) -> str:
    """Where a lesson is."""
    return f"{PATH}/{quote(lesson.id)}"


def notes() -> str:
    """What a lecturer needs: plans, what students get wrong, and what to do about it."""
    path = HERE / "instructor.md"
    spoken_in = sibling(path)
    return _html_of(spoken_in if spoken_in.exists() else path)


@cache
def _html_of(path: Path) -> str:
    return to_linked_html(path.read_text(encoding="utf-8"))
