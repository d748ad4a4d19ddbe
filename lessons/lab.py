"""The functions called by a lesson's own code: ask, record, show, replay, graph, reveal.

The same calls make the page: `course` reads them. Run as a script, a lesson prints everything to
the terminal: `python lessons/lesson05_zero3.py`, with `--recorded` from the committed traces, with
`--vary VALUE` with its parameter changed, with `--language zh` in Chinese.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

from rich.console import Console, JustifyMethod
from rich.markdown import Markdown
from rich.table import Table as RichTable

from zerosim.base.errors import ZerosimError
from zerosim.base.language import VARIABLE, Language, Words, chosen, speak
from zerosim.lessons.course import Block, LabCall, Text, read_lesson
from zerosim.lessons.facts import Facts
from zerosim.lessons.questions import (
    AnswerError,
    QuestionKind,
    check,
    explanation,
    offered,
    wording,
)
from zerosim.lessons.recordings import (
    HERE,
    LessonRecordings,
    can_record,
    command_of,
    is_given,
    record,
)
from zerosim.lessons.views import Bars, Drawing, View, view
from zerosim.lessons.views.model import width_of

BAR_COLUMNS = 40
_WORDS = Words(HERE / "words.toml")


class Lab:
    """A lesson that is run as a script or cell by cell."""

    def __init__(self, name: str) -> None:
        """Begin a lesson.

        Args:
            name: of the lesson's file, without ".py".
        """
        sys.excepthook = _end_clearly
        # in a notebook the command line is the kernel's
        in_notebook = "ipykernel" in sys.modules
        arguments = [] if in_notebook else sys.argv[1:]
        speak(_language(arguments))  # of the help, too
        self.lesson = read_lesson(HERE / f"{name}.py")
        self.console = Console()
        given = self._parse(arguments)
        self._from_committed = given.recorded or not can_record()
        vary = self.lesson.vary
        self._changes = () if given.vary is None else (vary.option, given.vary)
        self._folder = Path(tempfile.mkdtemp(prefix="zerosim-lesson-"))
        self.recordings = LessonRecordings()
        self.facts = Facts(self.recordings)
        # a notebook displays the text itself
        self._unsaid = iter(() if in_notebook else self._blocks())
        title = _WORDS("lab.title", number=self.lesson.number, title=self.lesson.title)
        self.console.rule(title)
        if self._changes:  # the questions are about these runs already
            self._record([run for run in self.lesson.runs() if not is_given(run)])

    def _parse(self, arguments: list[str]) -> argparse.Namespace:
        vary = self.lesson.vary
        parser = argparse.ArgumentParser(description=self.lesson.title)
        parser.add_argument(
            "--recorded", action="store_true", help="look at the committed traces, record none"
        )
        languages = ", ".join(Language)
        parser.add_argument("--language", help=f"{languages}; by default, the value of {VARIABLE}")
        parser.add_argument("--vary", choices=vary.values, help=f"{vary.what} ({vary.option})")
        given = parser.parse_args(arguments)
        if given.vary is not None and (given.recorded or not can_record()):
            parser.error("--vary records a new run: it needs PyTorch, and no --recorded")
        return given

    def _blocks(self) -> Iterator[tuple[str, Block]]:
        """All blocks, each with its heading, which only the first of a step has."""
        for number, step in enumerate(self.lesson.steps):
            for place, block in enumerate(step.blocks):
                yield step.title if number and not place else "", block

    def _say_until(self, name: str, *args: str) -> None:
        """Print the text before a call."""
        for title, block in self._unsaid:
            if title:
                self.console.print(f"\n[bold underline]{title}[/bold underline]")
            if isinstance(block, Text):
                self.console.print("", Markdown(block.markdown))
            elif isinstance(block, LabCall) and (block.name, block.args) == (name, args):
                return

    def ask(self, question_id: str) -> None:
        """Ask for a prediction; without a user, only print the question."""
        self._say_until("ask", question_id)
        question = self.lesson.questions[question_id]
        names = self.facts.names()
        self.console.print(f"\n[bold]{_WORDS('lab.predict')}[/bold]{wording(question, names)}")
        for option in offered(question, names):
            words = "" if option.label == option.key else f"{_WORDS('lab.is')}{option.label}"
            self.console.print(f"  {option.key}{words}")
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            return
        said = None
        while said is None:
            key = "lab.answer_in" if question.unit else "lab.answer"
            given = input(_WORDS(key, unit=question.unit)).strip()
            if not given:  # pressing enter skips the question
                return
            try:
                parsed = given.split() if question.kind is QuestionKind.ORDER else given
                said = check(question, parsed, names)
            except AnswerError as error:
                self.console.print(str(error), markup=False, highlight=False)
        self.console.print(_WORDS("lab.noted") if said.is_right else said.headline)
        if not said.is_right:
            self.console.print(said.words)

    def record(self, *runs: str) -> None:
        """Record runs for real; from then on all is about them."""
        self._say_until("record", *runs)
        if self._changes:
            return
        if self._from_committed:
            self._print_commands(runs)
            self.console.print(f"[dim]{_WORDS('lab.committed')}[/dim]")
        else:
            self._record(runs)

    def _record(self, runs: Sequence[str]) -> None:
        self._print_commands(runs)
        self.recordings = LessonRecordings(
            self.recordings.fresh | record(runs, self._folder, self._changes)
        )
        self.facts = Facts(self.recordings)

    def _print_commands(self, runs: Sequence[str]) -> None:
        self.console.print()
        for run in runs:
            self.console.print(f"[dim]$ {command_of(run, self._changes)}[/dim]", soft_wrap=True)

    def show(self, name: str, *runs: str) -> None:
        """Print a figure."""
        self._say_until("show", name, *runs)
        print_view(self.console, view(self.facts, name, *runs))

    def replay(self, run: str, at: str = "") -> None:
        """Print how to watch a run, step by step."""
        self._say_until("replay", run)
        folder = self._shown(self.recordings.folder(run).parent)
        said = _WORDS("lab.watch_at" if at else "lab.watch", run=run, at=at)
        self.console.print(f"\n{said}\n  zerosim serve {folder}", soft_wrap=True)

    def graph(self, run: str) -> None:
        """Print how to inspect a run's events, by rank and time."""
        self._say_until("graph", run)
        folder = self._shown(self.recordings.folder(run))
        said = _WORDS("lab.graph", run=run)
        self.console.print(f"\n{said}\n  zerosim graph {folder}", soft_wrap=True)

    def _shown(self, folder: Path) -> str:
        """A folder as a person here would type it."""
        return os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)

    def reveal(self, question_id: str) -> None:
        """Print the right answer and why it is right."""
        self._say_until("reveal", question_id)
        words = explanation(self.lesson.questions[question_id], self.facts.names())
        self.console.print(f"\n[bold]{_WORDS('lab.right_answer')}[/bold]", Markdown(words))

    def end(self) -> None:
        """Print the key points, exercises and reading."""
        self._say_until("end")
        vary = self.lesson.vary
        self.console.rule(_WORDS("lab.take_away"))
        self.console.print(Markdown(self.lesson.takeaway))
        values = ", ".join(vary.values)
        self.console.print(_WORDS("lab.vary", what=vary.what, values=values, ask=vary.ask))
        for each in self.lesson.reading:
            self.console.print(_WORDS("lab.read", what=each))


def _language(arguments: Sequence[str]) -> Language:
    """The options of the command line, or of the environment."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--language")
    return chosen(parser.parse_known_args(arguments)[0].language)


def print_view(console: Console, shown: View) -> None:
    """A figure in a terminal; for a drawing its contents, in rows."""
    if isinstance(shown, Drawing):
        shown = shown.table
    console.print(f"\n[bold]{shown.title}[/bold]")
    table = RichTable(box=None, pad_edge=False)
    if not isinstance(shown, Bars):
        for number, (column, is_text) in enumerate(zip(shown.columns, shown.is_text, strict=True)):
            justify: JustifyMethod = "right" if number and not is_text else "left"
            table.add_column(column, justify=justify, overflow="fold")
        for row in shown.rows:
            table.add_row(*row)
        console.print(table)
        return
    most = max([bar.total for bar in shown.bars] + [bar.law or 0 for bar in shown.bars])
    words = [width_of(bar.label) for bar in shown.bars]
    words += [width_of(part.words) + 2 for bar in shown.bars for part in bar.parts]
    left = console.width - max(words) - max(width_of(shown.unit), 7) - width_of(shown.law) - 8
    columns = max(8, min(BAR_COLUMNS, left))
    for column in ("", shown.unit, shown.law, ""):
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for bar in shown.bars:
        table.add_row(
            bar.label,
            f"{bar.total:.3f}",
            "" if bar.law is None else f"{bar.law:.3f}",
            "█" * round(columns * bar.total / most if most else 0),
        )
        for part in bar.parts:
            if round(part.value, 3) and len(bar.parts) > 1:
                table.add_row(f"  {part.words}", f"{part.value:.3f}", "", "")
    console.print(table)


def _end_clearly(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """One line and an exit code, as the commands have it."""
    if not isinstance(error, ZerosimError):
        sys.__excepthook__(kind, error, trace)
        return
    sys.stderr.write(f"zerosim: {error}\n")
    sys.stderr.flush()
    os._exit(error.exit_code)  # an excepthook cannot set the exit code otherwise
