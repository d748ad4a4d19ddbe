"""The parts of a lesson's page: steps, and the blocks of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from zerosim.dashboards.figures.drawn import Drawn
from zerosim.dashboards.figures.stacked import Stacked
from zerosim.lessons.course import Lesson
from zerosim.lessons.questions import AnswerOption, QuestionKind
from zerosim.lessons.views import FigureTable


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonBlock:
    """The common fields of all blocks.

    Attributes:
        id: its step and its place in it, "2.0"; unique in its lesson.
        after: the questions that it is covered by until all of them are settled.
    """

    id: str
    after: tuple[str, ...] = ()
    kind: str = field(init=False, default="")
    is_seen: bool = field(init=False, default=False)
    """Whether it is on the right, beside the view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock(LessonBlock):
    """Markdown, as HTML."""

    html: str
    kind: str = field(init=False, default="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock(LessonBlock):
    """Python that a script runs."""

    source: str
    kind: str = field(init=False, default="code")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBlock(LessonBlock):
    """A question. `options` are shuffled if their order is the answer."""

    question: str
    how: QuestionKind
    html: str
    unit: str
    options: tuple[AnswerOption, ...]
    kind: str = field(init=False, default="ask")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBlock(LessonBlock):
    """Runs that can be recorded here. `choices`: value, command, whether it is the present one."""

    command: str
    what: str
    remark: str
    choices: tuple[tuple[str, str, bool], ...]
    kind: str = field(init=False, default="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBlock(LessonBlock):
    """The view to watch. `problem` is the reason if there is none."""

    run: str
    at: str
    address: str
    problem: str = ""
    kind: str = field(init=False, default="replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBlock(LessonBlock):
    """A run's events by rank and time."""

    run: str
    address: str
    kind: str = field(init=False, default="graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock(LessonBlock):
    """A figure: bars, a drawing or a table; `problem` is the reason if there is none."""

    bars: Stacked | None = None
    drawing: Drawn | None = None
    table: FigureTable | None = None
    problem: str = ""
    kind: str = field(init=False, default="figure")
    is_seen: bool = field(init=False, default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealBlock(LessonBlock):
    """The answer to a question of another step, `step`."""

    question: str
    step: int
    kind: str = field(init=False, default="reveal")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndBlock(LessonBlock):
    """Key points, exercises and reading."""

    takeaway: str
    vary: str
    reading: tuple[str, ...]
    next: Lesson | None
    kind: str = field(init=False, default="end")


AnyBlock = (
    TextBlock
    | CodeBlock
    | AskBlock
    | RunBlock
    | ReplayBlock
    | GraphBlock
    | FigureBlock
    | RevealBlock
    | EndBlock
)


@dataclass(frozen=True, slots=True)
class StepPage:
    """A step: `number` from 1."""

    number: int
    title: str
    blocks: tuple[AnyBlock, ...]
