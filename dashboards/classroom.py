"""The lessons as a server teaches them: pages, answers, and runs that are recorded here."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, speaking, spoken
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.markdown import to_html
from zerosim.dashboards.pages.blocks import StepPage
from zerosim.dashboards.pages.lesson_steps import Writer
from zerosim.dashboards.pages.lessons import words
from zerosim.dashboards.shelf import Shelf
from zerosim.dashboards.workbench import State, Workbench, WorkbenchJob, name_of
from zerosim.lessons.course import LabCall, Lesson, find_lesson
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import Feedback, Question, check, explanation, misconceptions
from zerosim.lessons.recordings import COMMITTED, LessonRecordings, command_of, committed
from zerosim.view.replay.places import place

MOST_PAGES = 64
"""Size of the cache of lessons: all in both languages, and a few of runs recorded here."""


def lesson_shelf() -> Shelf:
    """The lessons' committed traces, the runs on a ring first."""
    runs = sorted(committed(), key=lambda run: not run.startswith("ring/"))
    return Shelf({name_of(run): COMMITTED / run for run in runs})


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """A lesson with its numbers.

    Attributes:
        ticket: id of the runs recorded here; "" for the committed ones.
        source: the origin of figures and replay.
    """

    lesson: Lesson
    ticket: str
    facts: Facts
    steps: tuple[StepPage, ...]
    source: str


class Classroom:
    """All lessons of a server. Thread-safe."""

    def __init__(self, library: Library, documents: Documents, workbench: Workbench) -> None:
        """Teach with a library's traces."""
        self._library, self._documents = library, documents
        self.workbench = workbench
        self._committed = Facts(LessonRecordings())
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, Language], Taught] = OrderedDict()
        self._writing: dict[tuple[str, str, Language], threading.Lock] = {}

    def teach(self, lesson_id: str, ticket: str = "") -> Taught:
        """A lesson.

        Args:
            ticket: id of runs recorded here; if there are none, the committed ones.

        Raises:
            ConfigError: there is no such lesson.
            TraceError: a trace cannot be read.
        """
        lesson = find_lesson(lesson_id)
        job = self._done(ticket)
        key = (lesson.id, "" if job is None else job.ticket, spoken())
        with self._lock:
            writing = self._writing.setdefault(key, threading.Lock())
        with writing:  # each is written once, without waiting for others
            taught = self._kept.get(key) or self._write(lesson, job)
            with self._lock:
                self._kept[key] = taught
                self._kept.move_to_end(key)
                while len(self._kept) > MOST_PAGES:
                    self._kept.popitem(last=False)
                self._writing.pop(key, None)
        return taught

    def check(self, taught: Taught, question_id: str, answer: object) -> Feedback:
        """The feedback on an answer.

        Raises:
            AnswerError: it is not an answer to the question.
            ConfigError: there is no such question.
        """
        return check(question_of(taught.lesson, question_id), answer, taught.facts.names())

    def explain(self, taught: Taught, question_id: str) -> str:
        """Why the right answer is right, as HTML.

        Raises:
            ConfigError: there is no such question.
        """
        question = question_of(taught.lesson, question_id)
        return to_html(explanation(question, taught.facts.names()))

    def record(self, taught: Taught, block_id: str, value: str) -> WorkbenchJob:
        """Record the runs of a step here.

        Args:
            value: of the lesson's varied option; "" for the runs unchanged.

        Raises:
            ConfigError: the lesson records no such runs or has no such value; or too many are
                queued.
        """
        lesson, vary = taught.lesson, taught.lesson.vary
        runs = _recorded_by(lesson, block_id)
        changes: tuple[str, ...] = ()
        if value:
            if vary.run not in runs or value not in vary.values:
                allowed = ", ".join(vary.values) if vary.run in runs else "none"
                raise ConfigError(f"value is {value[:40]!r}: expected one of {allowed}")
            changes = (vary.option, value)
        return self.workbench.submit(lesson.id, runs, changes)

    def _done(self, ticket: str) -> WorkbenchJob | None:
        job = self.workbench.find(ticket) if ticket else None
        is_run = job is not None and job.state is State.DONE and job.program is None
        return job if is_run else None

    def _write(self, lesson: Lesson, job: WorkbenchJob | None) -> Taught:
        facts = self._committed if job is None else Facts(LessonRecordings(job.folders))

        def trace_of(run: str) -> str:
            return name_of(run, job.ticket if job is not None and run in job.runs else "")

        def at(run: str, words: str) -> int:
            entry = self._library.find(trace_of(run))
            with speaking(Language.ENGLISH):  # as lessons name a step
                content = self._documents.get(entry).content
            return place(json.loads(content), words)

        changes = () if job is None else job.changes
        steps = Writer(lesson, facts, at, trace_of, changes).steps()
        source = _committed_words(lesson) if job is None else _fresh_words(job)
        return Taught(
            lesson=lesson,
            ticket="" if job is None else job.ticket,
            facts=facts,
            steps=steps,
            source=source,
        )


def question_of(lesson: Lesson, question_id: str) -> Question:
    """A question of a lesson.

    Raises:
        ConfigError: there is none.
    """
    found = lesson.questions.get(question_id)
    if found is None:
        known = ", ".join(lesson.questions)
        raise ConfigError(f"question is {question_id[:40]!r}: expected one of {known}")
    return found


def to_plain(said: Feedback) -> dict[str, Any]:
    """Feedback as JSON."""
    known = misconceptions().get(said.misconception)
    return {
        "right": said.is_right,
        "headline": said.headline,
        "words": to_html(said.words),
        "misconception": None if known is None else {"id": known.id, "name": known.name},
    }


def _recorded_by(lesson: Lesson, block_id: str) -> tuple[str, ...]:
    """The runs that a block of a lesson records."""
    for number, step in enumerate(lesson.steps):
        for at, block in enumerate(step.blocks):
            if (
                f"{number}.{at}" == block_id
                and isinstance(block, LabCall)
                and block.name == "record"
            ):
                return block.args
    raise ConfigError(f"{lesson.id} records nothing at {block_id[:20]!r}")


def _committed_words(lesson: Lesson) -> str:
    """The options of the committed traces."""
    runs = lesson.runs()
    if not runs:
        return ""
    manifest: Mapping[str, Any] = json.loads((COMMITTED / runs[0] / "manifest.json").read_bytes())
    versions = manifest.get("versions", {})
    date = datetime.fromisoformat(manifest["created"])
    said: str = words()["lesson"]["committed"]
    return said.format(
        torch=str(versions.get("torch", "")).partition("+")[0],
        date=date.strftime(words()["lesson"]["date"]),
    )


def _fresh_words(job: WorkbenchJob) -> str:
    command = "; ".join(command_of(run, job.changes) for run in job.runs)
    said = words()["lesson"]
    return f"{said['fresh'].format(command=command)}. {said['fresh_text']}"
