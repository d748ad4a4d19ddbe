"""The functions called by the cells of a puzzle's notebook.

A program is checked by the command, in a process of its own: a cell that trains in the notebook's
own process could not be ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from zerosim.base.errors import ConfigError
from zerosim.puzzles.moments import step_of
from zerosim.puzzles.puzzle import find_puzzle
from zerosim.record.judged import read_judged
from zerosim.view.reading import load
from zerosim.view.reading.player import Replay

_checked: dict[str, Path] = {}
"""By puzzle, the trace folder of the last checked program."""


def check(name: str) -> None:
    """Run the program in this folder on real ranks, and print the verdict."""
    puzzle = find_puzzle(name)
    folder = Path(tempfile.mkdtemp(prefix="zerosim-puzzle-")) / puzzle.name
    options = ["--check", puzzle.file_name, "--out", str(folder)]
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "zerosim", "puzzle", puzzle.name, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    _checked[puzzle.name] = folder
    print(done.stdout, done.stderr, sep="", end="")  # noqa: T201 - the notebook's cell shows it


def watch(name: str) -> Replay:
    """The replay of the program that was checked last, at its first illegal step.

    Raises:
        ConfigError: none was checked.
        TraceError: it left no trace.
    """
    puzzle = find_puzzle(name)
    if puzzle.name not in _checked:
        raise ConfigError(f'nothing was checked yet: run check("{puzzle.name}") first')
    folder = _checked[puzzle.name]
    run, judged = load(folder), read_judged(folder)
    if judged is None or judged.event < 0:
        return run.replay()
    events = (one for one in run.trace.ranks[judged.rank].events if one.id == judged.event)
    event = next(events)
    step = step_of(run.trace, event)
    return run.replay("" if step is None else f"step:{step}", iteration=event.iteration)
