"""The cells of a lesson's and of a puzzle's notebook, as nbformat 4 has them: no outputs.

The same texts give the same bytes, and a test holds the committed files against what is written
here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from zerosim.lessons.course import cells_of, course
from zerosim.lessons.recordings import HERE
from zerosim.puzzles.promised import bounds_of
from zerosim.puzzles.puzzle import Puzzle, puzzles

FOLDER = HERE / "notebooks"
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
_TEXT, _CODE = "markdown", "code"
Cell = tuple[str, str]
"""Its type and its source."""


def write_all() -> None:
    """Write every notebook beside this module."""
    for name, text in notebooks().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def notebooks() -> dict[str, str]:
    """Every notebook by its file's name."""
    found = {f"{one.path.stem}.ipynb": _text(_of_lesson(one.path)) for one in course()}
    for one in puzzles():
        name = f"puzzle{one.number:02}_{Path(one.file_name).stem}.ipynb"
        found[name] = _text(_of_puzzle(one))
    return found


def _of_lesson(path: Path) -> Iterator[Cell]:
    """Its title, what installs zerosim, then its cells as they stand in its file."""
    cells = cells_of(path)
    title = next(place for place, (is_text, _) in enumerate(cells) if is_text)
    yield _TEXT, cells[title][1]
    yield _CODE, INSTALL
    for place, (is_text, source) in enumerate(cells):
        if place != title:
            yield _TEXT if is_text else _CODE, source


def _of_puzzle(puzzle: Puzzle) -> Iterator[Cell]:
    """The task, its file to fill in, the check, the replay, and hints that are folded."""
    yield _TEXT, "\n".join([f"# Puzzle {puzzle.number}: {puzzle.title}", *_words(puzzle)])
    yield _CODE, INSTALL
    do = "Fill it in" if puzzle.broken is None else "It runs and is wrong: check it, then mend it"
    yield _TEXT, f"## Your program\n\n{do}. Running the cell writes the file."
    yield _CODE, f"%%writefile {puzzle.file_name}\n{_program(puzzle.task)}"
    yield _TEXT, "## Check it\n\n" + "\n".join(_promised(puzzle))
    yield _CODE, f'from zerosim.lessons.notebooks import check, watch\n\ncheck("{puzzle.name}")'
    yield _TEXT, "Watch it, from the first illegal step on. The arrow keys of the player go on."
    yield _CODE, f'watch("{puzzle.name}")'
    for number, hint in enumerate(puzzle.hints, 1):
        yield _TEXT, f"<details><summary>Hint {number}</summary>\n\n{hint}\n\n</details>"


def _words(puzzle: Puzzle) -> list[str]:
    """The task without its title; a mark of its own is no mark of Markdown."""
    _, _, rest = puzzle.words.partition("\n")
    return rest.replace("*", r"\*").replace("__", r"\_\_").splitlines()


def _program(task: str) -> str:
    """The file without the words of the task, which stand above."""
    docstring = ast.parse(task).body[0]
    return "\n".join(task.splitlines()[docstring.end_lineno or 0 :]).strip()


def _promised(puzzle: Puzzle) -> Iterator[str]:
    """What the judge computes from theory."""
    yield f"On {puzzle.ranks} real ranks. Bounds are computed from theory:"
    yield ""
    for one in bounds_of(puzzle):
        how = "at least" if one.is_least else "at most"
        most = f"{one.low:,}" if one.low == one.high else f"{one.low:,} to {one.high:,}, by rank"
        yield f"- {one.what}: {how} {most} (`{one.formula}`)"


def _text(cells: Iterable[Cell]) -> str:
    plain = {
        "cells": [_plain(number, *cell) for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _plain(number: int, kind: str, source: str) -> dict[str, Any]:
    cell = {
        "cell_type": kind,
        "id": f"step-{number:02}",
        "metadata": {},
        "source": source.strip("\n").splitlines(keepends=True),
    }
    return cell if kind == _TEXT else cell | {"execution_count": None, "outputs": []}
