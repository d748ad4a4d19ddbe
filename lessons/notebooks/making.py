"""The notebooks in nbformat 4, without outputs: written on demand.

A lesson or a puzzle is the source; the same source gives the same bytes.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.base.language import VARIABLE, Language, Words, spoken
from zerosim.lessons.course import cells_of, course
from zerosim.lessons.recordings import HERE
from zerosim.puzzles.promised import bounds_of
from zerosim.puzzles.puzzle import Puzzle, puzzles

ALL = "all"
"""Replaces a name, to mean all of them."""
SUFFIX = ".ipynb"
INSTALL = """\
# zerosim, where it is missing: from the checkout that this notebook is in, or from SOURCE.
import importlib.util
import subprocess
import sys
from pathlib import Path

SOURCE = ""  # what pip can install: a folder, a wheel, the address of a repository

if importlib.util.find_spec("zerosim") is None:
    above = [one for one in (Path.cwd(), *Path.cwd().parents) if (one / "zerosim").is_dir()]
    source = SOURCE or (str(above[0]) if above else "")
    assert source, "zerosim is not here: write into SOURCE where pip finds it, then run this again"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", source], check=True)"""
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
_NEAR = 3
_TEXT, _CODE = "markdown", "code"
_WORDS = Words(HERE / "words.toml")
Cell = tuple[str, str]
"""Its type and its source."""


@dataclass(frozen=True, slots=True)
class Notebook:
    """One notebook.

    Attributes:
        name: its name in commands: a lesson's number, a puzzle's name.
        file_name: the name of its file.
        cells: creates them, in the current language.
    """

    name: str
    file_name: str
    cells: Callable[[], Iterable[Cell]]

    def text(self) -> str:
        """The contents of its file."""
        return _text(self.cells())


def notebooks() -> tuple[Notebook, ...]:
    """All of them."""
    first = Notebook("first-steps", f"first_steps{SUFFIX}", _first_steps)
    lessons = (
        Notebook(str(one.number), f"{one.path.stem}{SUFFIX}", partial(_of_lesson, one.path))
        for one in course()
    )
    tasks = (
        Notebook(
            one.name,
            f"puzzle{one.number:02}_{Path(one.file_name).stem}{SUFFIX}",
            partial(_of_puzzle, one),
        )
        for one in puzzles()
    )
    return (first, *lessons, *tasks)


def find_notebook(name: str) -> Notebook:
    """A notebook by its name, or by that of its file.

    Raises:
        ConfigError: there is none.
    """
    known = notebooks()
    wanted = str(int(name)) if name.isdecimal() else _plain(name.removesuffix(".py"))
    for one in known:
        if wanted in {one.name, _plain(one.file_name)}:
            return one
    near = difflib.get_close_matches(name, [one.name for one in known], n=_NEAR, cutoff=0)
    raise ConfigError(
        f"name is {name[:40]!r}: expected a lesson's number, 0 to {course()[-1].number}, a "
        f"puzzle's name, first-steps or {ALL}; the nearest are {', '.join(near)}"
    )


def _plain(name: str) -> str:
    return name.removesuffix(SUFFIX).replace("_", "-")


def _first_steps() -> Iterator[Cell]:
    """The cells of the part outside of lessons: text, and blocks of Python."""
    text = (HERE / "notebooks" / "first_steps.md").read_text(encoding="utf-8")
    for place, part in enumerate(_BLOCK.split(text)):
        if source := part.strip():
            yield _CODE if place % 2 else _TEXT, source


def _of_lesson(path: Path) -> Iterator[Cell]:
    """Its title, the installation of zerosim, then its cells as in its file."""
    cells = cells_of(path)
    title = next(place for place, (is_text, _) in enumerate(cells) if is_text)
    yield _TEXT, cells[title][1]
    yield _CODE, _install()
    for place, (is_text, source) in enumerate(cells):
        if place != title:
            yield _TEXT if is_text else _CODE, source


def _of_puzzle(puzzle: Puzzle) -> Iterator[Cell]:
    """The task, its file to fill in, the check, the replay, and hints that are folded."""
    title = _WORDS("notebook.title", number=puzzle.number, title=puzzle.title)
    yield _TEXT, "\n".join([f"# {title}", *_words(puzzle)])
    yield _CODE, _install()
    how = _WORDS("notebook.fill" if puzzle.broken is None else "notebook.mend")
    yield _TEXT, f"## {_WORDS('notebook.program')}\n\n{how}"
    yield _CODE, f"%%writefile {puzzle.file_name}\n{_program(puzzle.task)}"
    yield _TEXT, f"## {_WORDS('notebook.check')}\n\n" + "\n".join(_promised(puzzle))
    yield _CODE, f'from zerosim.lessons.notebooks import check, watch\n\ncheck("{puzzle.name}")'
    yield _TEXT, _WORDS("notebook.watch")
    yield _CODE, f'watch("{puzzle.name}")'
    for number, hint in enumerate(puzzle.hints, 1):
        summary = _WORDS("notebook.hint", number=number)
        yield _TEXT, f"<details><summary>{summary}</summary>\n\n{hint}\n\n</details>"


def _install() -> str:
    """The installation of zerosim; called functions then use the language of the text."""
    if spoken() is Language.ENGLISH:
        return INSTALL
    return f'{INSTALL}\n\nimport os\n\nos.environ["{VARIABLE}"] = "{spoken()}"'


def _words(puzzle: Puzzle) -> list[str]:
    """The task without its title; its own markup is not Markdown."""
    _, _, rest = puzzle.words.partition("\n")
    return rest.replace("*", r"\*").replace("__", r"\_\_").splitlines()


def _program(task: str) -> str:
    """The file without the words of the task, which are above."""
    docstring = ast.parse(task).body[0]
    return "\n".join(task.splitlines()[docstring.end_lineno or 0 :]).strip()


def _promised(puzzle: Puzzle) -> Iterator[str]:
    """The values that the judge computes from theory."""
    yield _WORDS("notebook.bounds", ranks=puzzle.ranks)
    yield ""
    for one in bounds_of(puzzle):
        bound = f"{one.low:,}"
        if one.low != one.high:
            bound = _WORDS("notebook.by_rank", low=bound, high=f"{one.high:,}")
        key = "notebook.least" if one.is_least else "notebook.most"
        yield "- " + _WORDS(key, what=one.what, bound=bound, formula=one.formula)


def _text(cells: Iterable[Cell]) -> str:
    plain = {
        "cells": [_cell(number, *cell) for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, source: str) -> dict[str, Any]:
    cell = {
        "cell_type": kind,
        "id": f"step-{number:02}",
        "metadata": {},
        "source": source.strip("\n").splitlines(keepends=True),
    }
    return cell if kind == _TEXT else cell | {"execution_count": None, "outputs": []}
