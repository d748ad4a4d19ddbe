"""A lesson as its page shows it: its steps, made of blocks with this run's numbers.

Steps after questions are not in the page until these are settled, by a right answer or its
disclosure: a cover takes their place, and `rest_of` returns them. A right answer is never in a
page.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from urllib.parse import urlencode

from zerosim.base.errors import ZerosimError, first_line
from zerosim.base.language import enumerated
from zerosim.dashboards.figures.drawn import drawn
from zerosim.dashboards.figures.stacked import stacked
from zerosim.dashboards.markdown import to_html, to_inline_html
from zerosim.dashboards.pages import graph, replay
from zerosim.dashboards.pages.blocks import (
    AnyBlock,
    AskBlock,
    CodeBlock,
    EndBlock,
    FigureBlock,
    GraphBlock,
    ReplayBlock,
    RevealBlock,
    RunBlock,
    StepPage,
    TextBlock,
)
from zerosim.dashboards.pages.lessons import EMBED, words
from zerosim.lessons.course import Block, Code, LabCall, Lesson, Text, course
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import Question, offered, wording
from zerosim.lessons.recordings import command_of
from zerosim.lessons.views import Bars, Drawing, view
from zerosim.view.replay.places import names_hop

Place = Callable[[str, str], int]
"""The default step of a run's replay, by run and position in words."""


class Writer:
    """Makes a lesson's steps from facts."""

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
            trace_of: maps a run to the name of its trace in requests.
            changes: options of the recorded runs.
        """
        self.lesson, self.facts, self._place, self._trace_of = lesson, facts, place, trace_of
        self._changes = tuple(changes)
        self._asked_in: dict[str, int] = {}

    def steps(self) -> tuple[StepPage, ...]:
        """The whole lesson; its end is a step of its own, which is never covered."""
        steps = []
        end: tuple[AnyBlock, ...] = ()
        for number, step in enumerate(self.lesson.steps):
            blocks: list[AnyBlock] = []
            asked: tuple[str, ...] = ()  # in this step
            after: tuple[str, ...] = ()
            for place, block in enumerate(step.blocks):
                if isinstance(block, LabCall) and block.name == "end":
                    end = (self._end(f"{number}.{place}"),)
                    continue
                question = _asked_by(block)
                if not question:
                    after = asked
                blocks += self._write(block, f"{number}.{place}", after, number)
                if question:  # one that follows at once is not covered by it
                    asked = (*asked, question)
                    self._asked_in[question] = number
            steps.append(StepPage(number + 1, step.title, tuple(blocks)))
        if end:
            steps.append(StepPage(len(steps) + 1, words()["lesson"]["take_away"], end))
        return tuple(steps)

    def _write(
        self, block: Text | Code | LabCall, name: str, after: tuple[str, ...], step: int
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

    def _ask(self, name: str, after: tuple[str, ...], question: Question) -> AskBlock:
        names = self.facts.names()
        return AskBlock(
            id=name,
            after=after,
            question=question.id,
            how=question.kind,
            html=to_inline_html(wording(question, names)),
            unit=question.unit,
            options=offered(question, names),
        )

    def _run(self, name: str, after: tuple[str, ...], runs: Sequence[str]) -> RunBlock:
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

    def _figure(self, name: str, after: tuple[str, ...], shown: str, *runs: str) -> FigureBlock:
        try:
            made = view(self.facts, shown, *runs)
        except ZerosimError as error:
            return FigureBlock(id=name, after=after, problem=first_line(error))
        if isinstance(made, Bars):
            return FigureBlock(id=name, after=after, bars=stacked(made))
        if isinstance(made, Drawing):
            return FigureBlock(id=name, after=after, drawing=drawn(made))
        return FigureBlock(id=name, after=after, table=made)

    def _replay(self, name: str, after: tuple[str, ...], run: str, at: str) -> ReplayBlock:
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
            address=f"{self._address(replay.PATH, run)}#at={step + 1}{'&hops=1' * names_hop(at)}",
            problem=problem,
        )

    def _address(self, path: str, run: str) -> str:
        """A page of a run, embedded in a lesson."""
        return f"{path}?{urlencode({'trace': self._trace_of(run), EMBED: 1}, safe='/')}"

    def _end(self, name: str) -> EndBlock:
        lessons = course()
        place = [one.id for one in lessons].index(self.lesson.id) + 1
        vary = self.lesson.vary
        again = words()["lesson"]["vary_one"].format(
            what=vary.what, option=f"`{vary.option}`", values=enumerated(vary.values), ask=vary.ask
        )
        return EndBlock(
            id=name,
            takeaway=to_html(self.lesson.takeaway),
            vary=to_inline_html(again),
            reading=tuple(map(to_inline_html, self.lesson.reading)),
            next=lessons[place] if place < len(lessons) else None,
        )


def rest_of(steps: Sequence[StepPage], settled: Collection[str]) -> tuple[AnyBlock, ...]:
    """The steps covered by questions that are settled now."""
    return tuple(
        block
        for step in steps
        for block in step.blocks
        if block.after and all(question in settled for question in block.after)
    )


def _asked_by(block: Block) -> str:
    """The question of a block; "" if it has none."""
    return block.args[0] if isinstance(block, LabCall) and block.name == "ask" else ""
