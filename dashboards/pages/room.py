"""Room: the answers of a class. The lecturer's page, and its knowledge of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from typing import Any
from urllib.parse import quote

from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, spoken
from zerosim.dashboards import texts
from zerosim.dashboards.figures.answers import bars, thoughts
from zerosim.dashboards.pages import lessons
from zerosim.dashboards.votes import Tally
from zerosim.lessons.course import LabCall, Lesson, course, find_lesson
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import (
    AnswerOption,
    QuestionKind,
    explanation,
    misconceptions,
    offered,
    right_answer,
    wording,
)
from zerosim.lessons.recordings import LessonRecordings

PATH, JOIN = "/room", "/join"
TITLE = "Room"
MAIN = "room/main.js"
MOST_ASKED = 256


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as the lecturer's page shows it.

    Attributes:
        right: the right answer's key; "" if answers are not keys.
    """

    words: str
    unit: str
    kind: QuestionKind
    options: Sequence[AnswerOption]
    right: str
    explain: str


@dataclass(frozen=True, slots=True)
class RoomView:
    """The contents of the lecturer's page before a room is open.

    Attributes:
        addresses: addresses for students to type.
        is_public: whether students can reach them.
        hours: lifetime of a room.
        picks: see `picks`.
    """

    addresses: tuple[str, ...]
    is_public: bool
    hours: int
    picks: list[dict[str, Any]]


def view(public: Sequence[str], own: str, life_s: float) -> RoomView:
    """The lecturer's page.

    Args:
        public: addresses of this server for other machines.
        own: its address on this one.
    """
    typed = tuple(f"{_bare(one)}{JOIN}" for one in public or (own,))
    return RoomView(typed, bool(public), round(life_s / 3600), picks())


def words() -> Mapping[str, Mapping[str, Any]]:
    """The texts of these pages."""
    return texts.words("rooms")


def lesson_address(lesson_id: str) -> str:
    """The address of a lesson; by default the first one."""
    return f"{lessons.PATH}/{quote(lesson_id or course()[0].id)}"


def address_in(lesson_id: str, question_id: str, code: str) -> str:
    """The page of a student who joins a room: the step with the class's question."""
    step = f"#step={step_of(find_lesson(lesson_id), question_id)}" if question_id else ""
    return f"{lesson_address(lesson_id)}?room={quote(code)}{step}"


def _asks(call: LabCall, question_id: str) -> bool:
    return call.name == "ask" and call.args[:1] == (question_id,)


def _bare(address: str) -> str:
    """An address as a person types it."""
    return address.removeprefix("http://").rstrip("/")


def picks() -> list[dict[str, Any]]:
    """The lessons with questions."""
    return [
        {"id": one.id, "title": title_of(one), "questions": list(asked_in(one))}
        for one in course()
        if one.questions
    ]


def title_of(lesson: Lesson) -> str:
    """A lesson's title with its number."""
    return f"{lesson.number} · {lesson.title}"


def asked_in(lesson: Lesson) -> tuple[str, ...]:
    """The ids of a lesson's questions, in order."""
    return tuple(dict.fromkeys(call.args[0] for call in lesson.calls("ask")))


def step_of(lesson: Lesson, question_id: str) -> int:
    """The step of a question, from 1."""
    return next(
        number
        for number, step in enumerate(lesson.steps, 1)
        if any(isinstance(each, LabCall) and _asks(each, question_id) for each in step.blocks)
    )


def require(lesson_id: str, question_id: str) -> Lesson:
    """The lesson of a question.

    Raises:
        ConfigError: there is no such lesson, or it has no such question.
    """
    lesson = find_lesson(lesson_id)
    if question_id not in lesson.questions:
        raise ConfigError(
            f"lesson {lesson.id} has no question {question_id[:40]!r}: expected one of "
            f"{', '.join(lesson.questions)}"
        )
    return lesson


@lru_cache(MOST_ASKED)
def asked(lesson_id: str, question_id: str, _: Language) -> Asked:
    """A question in the current language, with the numbers of the committed runs.

    Raises:
        ConfigError: see `require`.
        TraceError: a run cannot be read.
    """
    question = require(lesson_id, question_id).questions[question_id]
    names = _facts().names()
    right = right_answer(question, names)
    return Asked(
        words=wording(question, names),
        unit=question.unit,
        kind=question.kind,
        options=offered(question, names),
        right=right if isinstance(right, str) else "",
        explain=explanation(question, names),
    )


def plain(tally: Tally) -> dict[str, Any]:
    """A tally as the page draws it.

    Raises:
        ConfigError, TraceError: see `asked`.
    """
    answer: dict[str, Any] = {
        "lesson": tally.lesson,
        "question": tally.question,
        "reveal": tally.reveal,
        "solved": tally.solved,
        "num_students": tally.num_students,
        "num_answered": tally.num_answered,
        "left_s": round(tally.left_s),
    }
    if not tally.question:
        return answer
    of = asked(tally.lesson, tally.question, spoken())
    names = {name: each.name for name, each in misconceptions().items()}
    return answer | {
        "words": of.words,
        "unit": of.unit,
        "choices": [] if of.kind is QuestionKind.MARK else [one.label for one in of.options],
        "explain": of.explain,
        "bars": [asdict(bar) for bar in bars(of.kind, of.options, of.right, tally.answers)],
        "thoughts": [asdict(one) for one in thoughts(tally.answers, names)],
        "right_first": sum(one.first for one in tally.answers if one.answer.is_right),
        "right_latest": sum(one.latest for one in tally.answers if one.answer.is_right),
    }


@cache
def _facts() -> Facts:
    return Facts(LessonRecordings())
