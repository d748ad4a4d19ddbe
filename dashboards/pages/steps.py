"""A lesson as the page has it: its steps, made of blocks with this run's numbers.

What comes after a question stays out of the page until there is an answer to it: its place is
kept by a cover, and `rest_of` gives it. A right answer is never in a page.
Imports the standard library, its siblings, lessons and zerosim's errors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from zerosim.dashboards.figures.stacked import Stacked, stacked
from zerosim.dashboards.markup import to_html, to_inline_html
from zerosim.dashboards.pages import graph, replay
from zerosim.dashboards.pages.lessons import EMBED, words
from zerosim.errors import ZerosimError, first_line
from zerosim.lessons.course import Call, Code, Lesson, Text, course
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import Option, Question, QuestionKind, options_of, wording
from zerosim.lessons.recordings import command_of
from zerosim.lessons.views import Bars, FigureTable, view

Place = Callable[[str, str], int]
"""The step at which a run's replay stands, of the run and where in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonBlock:
    """What all blocks have.

    Attributes:
        id: its step and its place in it, "2.0"; unique in its lesson.
        after: the question that it is covered by until it is answered; "" for none.
    """

    id: str
    after: str = ""
    kind: str = field(init=False, default="")
    is_seen: bool = field(init=False, default=False)
    """It stands on the right, with what is looked at."""


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
    """A question. `options` are shuffled where their order is the answer."""

    question: str
    how: QuestionKind
    html: str
    unit: str
    options: tuple[Option, ...]
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
    """Where to watch. `problem` says why it cannot be."""

    run: str
    at: str
    address: str
    problem: str = ""
    kind: str = field(init=False, default="replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBlock(LessonBlock):
    """Where a run's events stand by rank and time."""

    run: str
    address: str
    kind: str = field(init=False, default="graph")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock(LessonBlock):
    """A figure: bars or a table; `problem` says why there is none."""

    bars: Stacked | None = None
    table: FigureTable | None = None
    problem: str = ""
    kind: str = field(init=False, default="figure")
    is_seen: bool = field(init=False, default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealBlock(LessonBlock):
    """The answer to a question of another step, which is `step`."""

    question: str
    step: int
    kind: str = field(init=False, default="reveal")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndBlock(LessonBlock):
    """What to take away, to try and to read."""

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


class Writer:
    """Makes a lesson's steps of facts."""

    def __init__(
        self,
        lesson: Lesson,
        facts: Facts,
        place: Place,
        trace_of: Callable[[str], str],
        changes: Sequence[str] = (),
    ) -> None:
        """Write for one lesson.

        Args:
            place: see `Place`.
            trace_of: how a run's trace is asked for.
            changes: options with which the runs were recorded.
        """
        self.lesson, self.facts, self._place, self._trace_of = lesson, facts, place, trace_of
        self._changes = tuple(changes)
        self._asked_in: dict[str, int] = {}

    def steps(self) -> tuple[StepPage, ...]:
        """All of the lesson; its end is a step of its own, which nothing covers."""
        steps = []
        end: tuple[AnyBlock, ...] = ()
        for number, step in enumerate(self.lesson.steps):
            blocks: list[AnyBlock] = []
            after = ""
            for place, block in enumerate(step.blocks):
                if isinstance(block, Call) and block.name == "end":
                    end = (self._end(f"{number}.{place}"),)
                    continue
                blocks += self._write(block, f"{number}.{place}", after, number)
                if isinstance(block, Call) and block.name == "ask":
                    after = block.args[0]
                    self._asked_in[after] = number
            steps.append(StepPage(number + 1, step.title, tuple(blocks)))
        if end:
            steps.append(StepPage(len(steps) + 1, words()["lesson"]["take_away"], end))
        return tuple(steps)

    def _write(
        self, block: Text | Code | Call, name: str, after: str, step: int
    ) -> Iterator[AnyBlock]:
        if isinstance(block, Text):
            yield TextBlock(id=name, after=after, html=to_html(block.markdown))
            return
        if isinstance(block, Code):
            yield CodeBlock(id=name, after=after, source=block.source)
            return
        first = block.args[0] if block.args else ""
        match block.name:
            case "ask":
                yield self._ask(name, after, self.lesson.questions[first])
            case "record":
                yield self._run(name, after, block.args)
            case "show":
                yield self._figure(name, after, *block.args)
            case "replay":
                at = block.args[1] if len(block.args) > 1 else block.options.get("at", "")
                yield self._replay(name, after, first, at)
            case "graph":
                address = self._address(graph.PATH, first)
                yield GraphBlock(id=name, after=after, run=first, address=address)
            case "reveal" if self._asked_in.get(first, step) != step:
                yield RevealBlock(
                    id=name, after=after, question=first, step=self._asked_in[first] + 1
                )
            case _:
                return

    def _ask(self, name: str, after: str, question: Question) -> AskBlock:
        names = self.facts.names()
        options = options_of(question, names)
        if question.kind is QuestionKind.ORDER:
            options = _shuffled(question, options)
        return AskBlock(
            id=name,
            after=after,
            question=question.id,
            how=question.kind,
            html=to_inline_html(wording(question, names)),
            unit=question.unit,
            options=options,
        )

    def _run(self, name: str, after: str, runs: Sequence[str]) -> RunBlock:
        vary = self.lesson.vary
        is_varied = vary.run in runs

        def command(changes: Sequence[str]) -> str:
            return "\n".join(command_of(run, changes) for run in runs)

        shown = command(self._changes if is_varied else ())
        offered = [(value, command((vary.option, value))) for value in vary.values]
        return RunBlock(
            id=name,
            after=after,
            command=shown,
            what=vary.what if is_varied else "",
            remark=vary.ask if is_varied else "",
            choices=tuple((value, line, line == shown) for value, line in offered)
            if is_varied
            else (),
        )

    def _figure(self, name: str, after: str, shown: str, *runs: str) -> FigureBlock:
        try:
            made = view(self.facts, shown, *runs)
        except ZerosimError as error:
            return FigureBlock(id=name, after=after, problem=first_line(error))
        if isinstance(made, Bars):
            return FigureBlock(id=name, after=after, bars=stacked(made))
        return FigureBlock(id=name, after=after, table=made)

    def _replay(self, name: str, after: str, run: str, at: str) -> ReplayBlock:
        problem, step = "", 0
        try:
            step = self._place(run, at)
        except (ZerosimError, OSError) as error:
            problem = first_line(error)
        return ReplayBlock(
            id=name,
            after=after,
            run=run,
            at=at,
            address=f"{self._address(replay.PATH, run)}#at={step + 1}",
            problem=problem,
        )

    def _address(self, path: str, run: str) -> str:
        """A page of a run as it stands in a lesson."""
        return f"{path}?{urlencode({'trace': self._trace_of(run), EMBED: 1}, safe='/')}"

    def _end(self, name: str) -> EndBlock:
        lessons = course()
        place = [one.id for one in lessons].index(self.lesson.id) + 1
        vary = self.lesson.vary
        values = ", ".join(vary.values)
        return EndBlock(
            id=name,
            takeaway=to_html(self.lesson.takeaway),
            vary=to_inline_html(f"{vary.what}: `{vary.option}` {values}. {vary.ask}"),
            reading=tuple(map(to_inline_html, self.lesson.reading)),
            next=lessons[place] if place < len(lessons) else None,
        )


def rest_of(steps: Sequence[StepPage], question: str) -> tuple[AnyBlock, ...]:
    """What a question covers."""
    return tuple(block for step in steps for block in step.blocks if block.after == question)


def _shuffled(question: Question, options: Sequence[Option]) -> tuple[Option, ...]:
    """In an order that tells nothing and is always the same."""

    def draw(option: Option) -> str:
        return hashlib.sha256(f"{question.id}:{option.key}".encode()).hexdigest()

    return tuple(sorted(options, key=draw))
