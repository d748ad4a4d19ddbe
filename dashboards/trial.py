"""A student's program that is checked for a page, as `zerosim puzzle NAME --check` checks it.

The command runs in a process of its own, with its usual limits; its JSON output becomes the
verdict, with the end of the program's output beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.base.errors import RunError
from zerosim.base.language import spoken
from zerosim.puzzles.puzzle import find_puzzle

LONGEST_S = 240.0
"""Timeout of a check: the ranks' own limit is 180 s on a busy machine."""
MOST_BYTES = 32 * 1024
"""Maximum size of a program."""
_MOST_PRINTED = 6_000
_PROGRAM, _VERDICT, _PRINTED = "program.py", "verdict.json", "printed.txt"
_OWN = "program"
_JUDGED = (0, 1)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The outcome of a program.

    Attributes:
        verdict: as printed by `zerosim puzzle --check --json`.
        printed: the end of the program's output.
    """

    verdict: Mapping[str, Any]
    printed: str


def put(folder: Path, program: str) -> None:
    """Write a program to the place where `judge` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _PROGRAM).write_text(program, encoding="utf-8")


def judge(name: str, folder: Path) -> None:
    """Check the program of a folder.

    Args:
        name: name of the puzzle.
        folder: the trace goes into a new folder in it, named after the puzzle.

    Raises:
        RunError: it could not be checked; with the output.
    """
    puzzle = find_puzzle(name)
    file = folder / _OWN / puzzle.file_name  # as the verdict names its lines
    file.parent.mkdir()
    (folder / _PROGRAM).replace(file)
    options = ["--check", str(file), "--out", str(folder / puzzle.name), "--json"]
    with (
        (folder / _VERDICT).open("wb") as verdict,
        subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", "zerosim", "puzzle", puzzle.name, *options],
            stdout=verdict,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1", "ZEROSIM_LANGUAGE": spoken()},
        ) as process,
    ):
        assert process.stderr is not None
        printed = b""
        while part := os.read(process.stderr.fileno(), 1 << 16):
            printed = (printed + part)[-_MOST_PRINTED:]
    text = printed.decode(errors="replace")
    if process.returncode not in _JUDGED:
        raise RunError((text.strip().splitlines() or ["it could not be checked"])[-1])
    (folder / _PRINTED).write_text(text, encoding="utf-8")


def read(folder: Path) -> TrialResult:
    """The result of `judge` in a folder."""
    verdict: Mapping[str, Any] = json.loads((folder / _VERDICT).read_bytes())
    return TrialResult(verdict, (folder / _PRINTED).read_text(encoding="utf-8"))
