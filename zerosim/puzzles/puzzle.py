"""What a puzzle is, declared once in a folder of `lessons/puzzles`.

puzzle.toml    its place, title, ranks, what is promised, hints, programs that are wrong
zh/puzzle.toml what is said of it in another language: title, able, task, hints, problems
task.py        what a student gets: the task, and a body that is not implemented
reference.py   a solution
case.py        `run(program, rank, ranks)`: inputs, the call, what is right
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
    """What a right program does beside right values; a formula is one of `bounds`.

    Attributes:
        exact: results are equal bit by bit.
        calls: the operations that it may call; empty for all.
        contents: each message holds what `case.py` names.
        sent: the most bytes that a rank sends in an iteration; "" for no bound.
        crossing: likewise of those in calls of ranks that are on several nodes.
        rounds: the most rounds one after the other; likewise.
        held: the most bytes of tensors that a rank holds when it calls a collective; likewise.
        num_calls: the most calls of a rank; likewise.
        turns: the most computations that wait for one another; likewise.
        overlap: at least so many calls are under way while the rank computes; likewise.
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
    """A program that is wrong: one that students write, or one that they are to mend.

    Attributes:
        name: of the mistake.
        edits: what stands once in the reference, and what stands there instead; empty of one that
            is to be mended, which is the task itself.
        check: which check must find it.
        says: what must be said of it.
    """

    name: str
    check: str
    edits: tuple[tuple[str, str], ...] = ()
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """One puzzle.

    Attributes:
        number: its place, from 1.
        name: as it is called in commands, with hyphens.
        functions: what the student fills.
        iteration: which one is measured, from 0.
        broken: what is wrong with what the student gets, which is to be mended; None where a body
            is to be written.
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
        """Where it is declared."""
        return FOLDER / self.name.replace("-", "_")

    @property
    def file_name(self) -> str:
        """What a student's file is called."""
        return f"{self.name.replace('-', '_')}.py"

    @property
    def title(self) -> str:
        """What it is called."""
        return str(self._told["title"])

    @property
    def able(self) -> str:
        """What one is able to do who has solved it."""
        return str(self._told["able"])

    @property
    def hints(self) -> tuple[str, ...]:
        """One after another."""
        return tuple(self._told["hints"])

    @property
    def task(self) -> str:
        """What a student gets."""
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
        """What is said of it in the language that is spoken; in English the task says itself."""
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
    """All of them, in order."""
    found = [_read(path) for path in FOLDER.glob(f"*/{DECLARED}")]
    return tuple(sorted(found, key=lambda one: one.number))


def find_puzzle(name: str) -> Puzzle:
    """A puzzle by its name or its number.

    Raises:
        ConfigError: there is none.
    """
    wanted = name.removesuffix(".py").replace("_", "-")
    for one in puzzles():
        if wanted in {one.name, str(one.number)}:
            return one
    raise ConfigError(
        f"there is no puzzle {name[:40]!r}: expected one of {', '.join(p.name for p in puzzles())}"
    )


def puzzle_of(text: str, name: str) -> Puzzle:
    """The puzzle that a program solves: by what it defines.

    Args:
        text: the program.
        name: of its file, for messages.

    Raises:
        ConfigError: it is no Python, or defines nothing that a puzzle asks for.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise ConfigError(
            f"{name} is no Python program: line {error.lineno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise ConfigError(f"{name} is no Python program: {error}") from None
    kinds = (ast.FunctionDef, ast.ClassDef)
    defined = {node.name for node in tree.body if isinstance(node, kinds)}
    for one in puzzles():
        if set(one.functions) <= defined:
            return one
    raise ConfigError(
        f"{name} defines none of what puzzles ask for: expected a file that zerosim puzzle NAME "
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
