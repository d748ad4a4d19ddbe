"""Lessons: teach me. The course, and a lesson as steps of blocks: text and tasks, replay, figures.

What comes after a question stays out of the page until there is an answer to it: its place is
kept by a cover, and `rest_of` gives it. A right answer is never in a page.
Imports the standard library, its siblings, lessons and zerosim's errors.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

from dashboards.figures.stacked import Stacked, stacked
from dashboards.markup import to_html, to_inline_html, to_linked_html
from lessons.course import Call, Code, Lesson, Text, course
from lessons.facts import Facts
from lessons.questions import Kind, Option, Question, options_of, wording
from lessons.recordings import HERE, command_of
from lessons.views import Bars, Table, view
from zerosim.errors import ZerosimError, first_line

PATH = "/lessons"
TITLE = "Lessons"
NOTES = f"{PATH}/notes"
"""For lecturers."""
EMBED = "embed"
"""In the query of a replay that stands in a lesson."""
CLAIMS = "claims"
"""In the id of a lesson that tests what is said of ZeRO."""
MARK = "?"
Place = Callable[[str, str], int]
"""The step at which a run's replay stands, of the run and where in words."""


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """What these pages say themselves."""
    file = Path(__file__).parent.parent / "words" / "lessons.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


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


@cache
def notes() -> str:
    """What a lecturer needs: plans, what students get wrong, and what to do about it."""
    return to_linked_html((HERE / "instructor.md").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------- blocks of a lesson


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
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
class TextBlock(Block):
    """Markdown, as HTML."""

    html: str
    kind: str = field(init=False, default="text")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock(Block):
    """Python that a script runs."""

    source: str
    kind: str = field(init=False, default="code")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBlock(Block):
    """A question. `options` are shuffled where their order is the answer."""

    question: str
    how: Kind
    html: str
    unit: str
    options: tuple[Option, ...]
    kind: str = field(init=False, default="ask")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBlock(Block):
    """Runs that can be recorded here. `choices`: value, command, whether it is the present one."""

    command: str
    what: str
    remark: str
    choices: tuple[tuple[str, str, bool], ...]
    kind: str = field(init=False, default="run")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayBlock(Block):
    """Where to watch. `problem` says why it cannot be."""

    run: str
    at: str
    address: str
    problem: str = ""
    kind: str = field(init=False, default="replay")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureBlock(Block):
    """A figure: bars or a table; `problem` says why there is none."""

    bars: Stacked | None = None
    table: Table | None = None
    problem: str = ""
    kind: str = field(init=False, default="figure")
    is_seen: bool = field(init=False, default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealBlock(Block):
    """The answer to a question of another step, which is `step`."""

    question: str
    step: int
    kind: str = field(init=False, default="reveal")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndBlock(Block):
    """What to take away, to try and to read."""

    takeaway: str
    vary: str
    reading: tuple[str, ...]
    next: Lesson | None
    kind: str = field(init=False, default="end")


AnyBlock = (
    TextBlock | CodeBlock | AskBlock | RunBlock | ReplayBlock | FigureBlock | RevealBlock | EndBlock
)


@dataclass(frozen=True, slots=True)
class Step:
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

    def steps(self) -> tuple[Step, ...]:
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
            steps.append(Step(number + 1, step.title, tuple(blocks)))
        if end:
            steps.append(Step(len(steps) + 1, words()["lesson"]["take_away"], end))
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
            case "reveal" if self._asked_in.get(first, step) != step:
                yield RevealBlock(
                    id=name, after=after, question=first, step=self._asked_in[first] + 1
                )
            case _:
                return

    def _ask(self, name: str, after: str, question: Question) -> AskBlock:
        names = self.facts.names()
        options = options_of(question, names)
        if question.kind is Kind.ORDER:
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
        command = "\n".join(command_of(run) for run in runs)
        choices: tuple[tuple[str, str, bool], ...] = ()
        if vary.run in runs:
            now = self._changes[1] if self._changes else _value_of(command, vary.option)
            choices = tuple(
                (value, _varied(command, vary.option, value), value == now) for value in vary.values
            )
        shown = next((line for value, line, is_now in choices if is_now), command)
        return RunBlock(
            id=name,
            after=after,
            command=shown,
            what=vary.what if choices else "",
            remark=vary.ask if choices else "",
            choices=choices,
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
        query = urlencode({"trace": self._trace_of(run), EMBED: 1}, safe="/")
        return ReplayBlock(
            id=name,
            after=after,
            run=run,
            at=at,
            address=f"/replay?{query}#at={step + 1}",
            problem=problem,
        )

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


def rest_of(steps: Sequence[Step], question: str) -> tuple[AnyBlock, ...]:
    """What a question covers."""
    return tuple(block for step in steps for block in step.blocks if block.after == question)


def _shuffled(question: Question, options: Sequence[Option]) -> tuple[Option, ...]:
    """In an order that tells nothing and is always the same."""

    def draw(option: Option) -> str:
        return hashlib.sha256(f"{question.id}:{option.key}".encode()).hexdigest()

    return tuple(sorted(options, key=draw))


def _value_of(command: str, option: str) -> str:
    """What a command says of an option; "" if nothing."""
    words_of = command.split()
    return words_of[words_of.index(option) + 1] if option in words_of[:-1] else ""


def _varied(command: str, option: str, value: str) -> str:
    """The same command with another value of an option."""
    lines = []
    for line in command.splitlines():
        parts = line.split()
        if option in parts[:-1]:
            parts[parts.index(option) + 1] = value
        else:
            parts += [option, value]
        lines.append(" ".join(parts))
    return "\n".join(lines)
