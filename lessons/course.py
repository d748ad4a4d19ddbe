"""A lesson as steps of blocks: shown one after another on the page, and run by a script.

A lesson is a Python file in percent format. Cells that begin with `# %% [markdown]` are text; a
heading of the second level begins a step. In the other cells a call of the lab with plain
arguments, such as `lab.ask("sent")`, is a block of its own; the rest is shown as code. In another
language the text cells come from `LANGUAGE/lessonNN_name.md`, where a line `%% cell` precedes each,
and the texts of the questions from a TOML file of the same name there.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import in_each_language, overlaid, sibling, typeset
from zerosim.lessons.questions import Question, parse_question
from zerosim.lessons.recordings import HERE
from zerosim.lessons.syntax import parse

_CELL = re.compile(r"^# %%(.*)$")
_TRANSLATED = "%% cell"
"""The line before each cell of text in another language."""
_NEAR = 3
_FILES = re.compile(r"lesson(\d\d)_\w+\.py")
CALLS = frozenset({"ask", "record", "show", "replay", "graph", "reveal", "end"})
"""Calls of the lab with a display of their own on the page."""


class LessonPath(StrEnum):
    """A path of the course that can be taken by itself; each builds on the previous ones."""

    CORE = "core"
    """For everyone."""
    PRACTICE = "practice"
    """For practitioners of training."""
    DEPTH = "depth"
    """The rest of the field."""


@dataclass(frozen=True, slots=True)
class Text:
    """Markdown."""

    markdown: str


@dataclass(frozen=True, slots=True)
class Code:
    """Python that a reader of the page sees and a script runs."""

    source: str


@dataclass(frozen=True, slots=True)
class LabCall:
    """A call of the lab: its name and its plain arguments."""

    name: str
    args: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


Block = Text | Code | LabCall


@dataclass(frozen=True, slots=True)
class LessonStep:
    """A step: the contents of one screen.

    Attributes:
        title: without marks.
        blocks: in order.
    """

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Vary:
    """The one parameter that a student changes.

    Attributes:
        what: the varied quantity, in words.
        option: the option of the recording command.
        values: its values.
        run: the run to record again.
        ask: the quantity to look at.
    """

    what: str
    option: str
    values: tuple[str, ...]
    run: str
    ask: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One lesson.

    Attributes:
        number: its number in the course.
        id: its id in addresses.
        minutes: its duration in a class.
        part: its path.
        able: the skill after it, to follow "you can".
        knows: the knowledge after it.
        needs: ids of prerequisite lessons.
        figures: each number in the text, with its expression.
        questions: questions by id.
        steps: steps; the first is the introduction.
    """

    number: int
    id: str
    title: str
    path: Path
    minutes: int
    part: LessonPath
    able: str
    knows: tuple[str, ...]
    needs: tuple[str, ...]
    vary: Vary
    takeaway: str
    reading: tuple[str, ...]
    figures: Mapping[str, str]
    questions: Mapping[str, Question]
    steps: tuple[LessonStep, ...]

    def calls(self, name: str) -> Iterator[LabCall]:
        """All calls of the lab by one name, in order."""
        for step in self.steps:
            for block in step.blocks:
                if isinstance(block, LabCall) and block.name == name:
                    yield block

    def runs(self) -> tuple[str, ...]:
        """The runs that its calls name."""
        named = [
            arg
            for name in ("record", "replay", "graph")
            for call in self.calls(name)
            for arg in call.args
        ]
        return tuple(dict.fromkeys(named))


@in_each_language
def course() -> tuple[Lesson, ...]:
    """All lessons, in order, in the language that is spoken.

    Raises:
        ConfigError: a lesson's file cannot be read.
    """
    files = sorted(path for path in HERE.iterdir() if _FILES.fullmatch(path.name))
    return tuple(map(read_lesson, files))


def find_lesson(name: str) -> Lesson:
    """A lesson by its id.

    Raises:
        ConfigError: there is none.
    """
    ids = {lesson.id: lesson for lesson in course()}
    if name in ids:
        return ids[name]
    near = difflib.get_close_matches(name, ids, n=_NEAR, cutoff=0)
    raise ConfigError(
        f"there is no lesson {name[:40]!r}: expected one of {len(ids)}, which page Lessons lists; "
        f"the nearest are {', '.join(near)}"
    )


def read_lesson(path: Path) -> Lesson:
    """A lesson from its two files.

    Raises:
        ConfigError: a required field is missing, or a referenced question does not exist.
    """
    found = _FILES.fullmatch(path.name)
    assert found is not None, path
    try:
        plain = overlaid(path.with_suffix(".toml"))
        questions = {
            name: parse_question(name, each) for name, each in plain.pop("questions").items()
        }
        vary = plain.pop("vary")
        title, steps = _steps(cells_of(path))
        lesson = Lesson(
            number=int(found[1]),
            title=title,
            path=path,
            part=LessonPath(plain.pop("part")),
            knows=tuple(plain.pop("knows")),
            needs=tuple(plain.pop("needs")),
            reading=tuple(plain.pop("reading")),
            vary=Vary(**vary | {"values": tuple(vary["values"])}),
            questions=questions,
            steps=steps,
            **plain,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path.with_suffix('.toml').name}: {error}") from None
    asked = {call.args[0] for call in lesson.calls("ask")}
    if asked != set(questions):
        raise ConfigError(
            f"{path.name} asks {sorted(asked)}, its questions are {sorted(questions)}"
        )
    return lesson


def cells_of(path: Path) -> list[tuple[bool, str]]:
    """The cells of a lesson's file in order: whether each is text, and its contents.

    Text is in the language that is spoken.

    Raises:
        KeyError: that language has a different number of cells.
    """
    cells = list(_cells(path.read_text(encoding="utf-8")))
    other = sibling(path.with_suffix(".md"))
    if other.parent == path.parent or not other.exists():
        return cells
    translated = _translated(other.read_text(encoding="utf-8"))
    count = sum(is_text for is_text, _ in cells)
    if len(translated) != count:
        raise KeyError(f"{other.parent.name}/{other.name} has {len(translated)} cells, not {count}")
    texts = iter(translated)
    return [(is_text, next(texts) if is_text else cell) for is_text, cell in cells]


def _translated(text: str) -> list[str]:
    """The text cells of a lesson in another language."""
    return [one.strip() for one in re.split(rf"(?m)^{_TRANSLATED}$", text)[1:]]


def _steps(cells: Iterable[tuple[bool, str]]) -> tuple[str, tuple[LessonStep, ...]]:
    title, steps = "", []
    blocks: list[Block] = []
    heading = ""
    for is_text, cell in cells:
        if not is_text:
            blocks += _blocks(cell) if title else ()  # earlier code is for the script
            continue
        for part in re.split(r"(?m)^(?=#{1,2} )", cell):
            first, _, rest = part.strip().partition("\n")
            if first.startswith("# "):
                title = heading = first.removeprefix("# ").strip()
            elif first.startswith("## "):
                steps.append(LessonStep(heading, tuple(blocks)))
                blocks, heading = [], first.removeprefix("## ").strip()
            else:
                rest = part
            if rest.strip():
                blocks.append(Text(typeset(rest.strip())))
    steps.append(LessonStep(heading, tuple(blocks)))
    return title, tuple(steps)


def _cells(source: str) -> Iterator[tuple[bool, str]]:
    """Each cell, and whether it is text; the part before the first is for the script alone."""
    is_text, lines, begun = False, [], False
    for line in [*source.splitlines(), "# %%"]:
        mark = _CELL.match(line)
        if mark is None:
            lines.append(line)
            continue
        if begun and any(lines):
            cell = "\n".join(lines)
            yield is_text, re.sub(r"(?m)^# ?", "", cell) if is_text else cell
        is_text, lines, begun = "[markdown]" in mark[1], [], True


def _blocks(cell: str) -> Iterator[Block]:
    code: list[str] = []
    for statement in parse(cell).body:
        call = _call_of(statement)
        if call is None:
            code.append(ast.get_source_segment(cell, statement) or "")
            continue
        if code:
            yield Code("\n".join(code))
            code = []
        yield call
    if code:
        yield Code("\n".join(code))


def _call_of(statement: ast.stmt) -> LabCall | None:
    """A call of the lab with plain arguments."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        return None
    if function.value.id != "lab" or function.attr not in CALLS:
        return None
    return LabCall(
        function.attr,
        tuple(ast.literal_eval(each) for each in call.args),
        {each.arg: ast.literal_eval(each.value) for each in call.keywords if each.arg},
    )
