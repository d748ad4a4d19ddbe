"""A puzzle, declared once in a folder of `lessons/puzzles`.

Files of a puzzle:

    puzzle.toml    its number, title, ranks, promise, hints, wrong programs
    zh/puzzle.toml its texts in another language: title, able, task, hints, problems
    task.py        the student's file: the task, and a body that is not implemented
    reference.py   a solution
    case.py        `run(program, rank, ranks)`: inputs, the call, correct results
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import Words

DECLARED = "puzzle.toml"
FOLDER = Path(__file__).resolve().parents[1] / "lessons" / "puzzles"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The properties of a correct program besides its values; a formula is one of `bounds`.

    Attributes:
        exact: whether results must be equal bit by bit.
        calls: the allowed operations; empty for all.
        contents: each message has the contents that `case.py` names.
        sent: maximum bytes that a rank sends in an iteration; "" for no bound.
        crossing: the same for calls of ranks on several nodes.
        rounds: maximum number of consecutive rounds; "" for no bound.
        held: maximum bytes of a rank's tensors at a collective; "" for no bound.
        num_calls: maximum number of calls of a rank; "" for no bound.
        turns: maximum number of dependent computations; "" for no bound.
        overlap: minimum number of calls in progress during computation; "" for no bound.
    """

    exact: bool = True
    calls: tuple[str, ...] = ()
    contents: bool = False
    sent: str = ""
    crossing: str = ""
    rounds: str = ""
    held: str = ""
    num_calls: str = ""
    turns: str = ""
    overlap: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongProgram:
    """A wrong program: a typical mistake of students, or one that they have to fix.

    Attributes:
        name: name of the mistake.
        edits: text that occurs once in the reference, and its replacement; empty for a puzzle with
            a bug to fix, where it is the task itself.
        check: the check that must find it.
        says: the required text of the verdict.
    """

    name: str
    check: str
    edits: tuple[tuple[str, str], ...] = ()
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """One puzzle.

    Attributes:
        number: its number, from 1.
        name: its name in commands, with hyphens.
        functions: the functions to write.
        iteration: the measured iteration, from 0.
        broken: the bug in the student's file, to be fixed; None if a body is to be written.
    """

    number: int
    name: str
    ranks: int
    functions: tuple[str, ...]
    promise: Promise
    wrong: tuple[WrongProgram, ...]
    iteration: int = 0
    broken: WrongProgram | None = None

    @property
    def folder(self) -> Path:
        """The folder of its declaration."""
        return FOLDER / self.name.replace("-", "_")

    @property
    def file_name(self) -> str:
        """The name of a student's file."""
        return f"{self.name.replace('-', '_')}.py"

    @property
    def title(self) -> str:
        """Its title."""
        return str(self._told["title"])

    @property
    def able(self) -> str:
        """What a student can do after solving it."""
        return str(self._told["able"])

    @property
    def hints(self) -> tuple[str, ...]:
        """The hints, in order."""
        return tuple(self._told["hints"])

    @property
    def task(self) -> str:
        """The student's file."""
        text = (self.folder / "task.py").read_text(encoding="utf-8")
        said = self._told.get("task")
        if said is None:
            return text
        docstring = ast.parse(text).body[0]
        rest = text.splitlines(keepends=True)[docstring.end_lineno :]
        return f'"""{said.strip()}\n"""\n{"".join(rest)}'

    @property
    def words(self) -> str:
        """The task in words."""
        return ast.get_docstring(ast.parse(self.task)) or ""

    @property
    def _told(self) -> Mapping[str, Any]:
        """Its text in the current language; in English, the task has it."""
        return Words(self.folder / DECLARED).table

    @property
    def reference(self) -> str:
        """A solution."""
        return (self.folder / "reference.py").read_text(encoding="utf-8")

    def program_of(self, wrong: WrongProgram) -> str:
        """The text of a wrong program."""
        text = self.task if wrong is self.broken else self.reference
        for old, new in wrong.edits:
            assert text.count(old) == 1, f"{self.name}, {wrong.name}: {old!r} is not there once"
            text = text.replace(old, new)
        return text


@cache
def puzzles() -> tuple[Puzzle, ...]:
    """All puzzles, in order."""
    found = [_read(path) for path in FOLDER.glob(f"*/{DECLARED}")]
    return tuple(sorted(found, key=lambda one: one.number))


def find_puzzle(name: str) -> Puzzle:
    """A puzzle by its name or its number.

    Raises:
        ConfigError: there is no such puzzle.
    """
    wanted = name.removesuffix(".py").replace("_", "-")
    for one in puzzles():
        if wanted in {one.name, str(one.number)}:
            return one
    raise ConfigError(
        f"there is no puzzle {name[:40]!r}: expected one of {', '.join(p.name for p in puzzles())}"
    )


def puzzle_of(text: str, name: str) -> Puzzle:
    """The puzzle that a program solves: by its definitions.

    Args:
        text: the program.
        name: name of its file, for messages.

    Raises:
        ConfigError: it is not Python, or defines no function of a puzzle.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(
            f"{name} is not a Python program: line {error.lineno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{name} is not a Python program: {error}") from None
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined = {node.name for node in tree.body if isinstance(node, kinds)}
    for one in puzzles():
        if set(one.functions) <= defined:
            return one
    raise ConfigError(
        f"{name} defines no function of a puzzle: expected a file that zerosim puzzle NAME "
        "wrote, filled in"
    )


def _read(path: Path) -> Puzzle:
    with path.open("rb") as file:
        plain = tomllib.load(file)
    for said in ("title", "able", "hints", "problems"):
        plain.pop(said, None)
    broken = plain.pop("broken", None)
    return Puzzle(
        name=path.parent.name.replace("_", "-"),
        broken=None if broken is None else WrongProgram(**broken),
        functions=tuple(plain.pop("functions")),
        promise=_promise(plain.pop("promise")),
        wrong=tuple(map(_wrong, plain.pop("wrong"))),
        **plain,
    )


def _promise(plain: Mapping[str, Any]) -> Promise:
    return Promise(**{**plain, "calls": tuple(plain.get("calls", ()))})


def _wrong(plain: Mapping[str, Any]) -> WrongProgram:
    edits: Sequence[Sequence[str]] = plain["edits"]
    return WrongProgram(**{**plain, "edits": tuple((old, new) for old, new in edits)})
