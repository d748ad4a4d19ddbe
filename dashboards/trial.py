"""A student's program that is checked for a page, as `zerosim puzzle NAME --check` checks it.

The command runs in a process of its own, with the limits that it has anywhere else; what it says as
JSON becomes the verdict, the end of what the program printed stands beside it.
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
"""Of a check: the ranks' own limit is 180 s on a machine with much else to do."""
MOST_BYTES = 32 * 1024
"""Of a program."""
_MOST_PRINTED = 6_000
_PROGRAM, _VERDICT, _PRINTED = "program.py", "verdict.json", "printed.txt"
_OWN = "program"
_JUDGED = (0, 1)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What became of a program.

    Attributes:
        verdict: as `zerosim puzzle --check --json` prints it.
        printed: the end of what the program printed.
    """

    verdict: Mapping[str, Any]
    printed: str


def put(folder: Path, program: str) -> None:
    """Write a program where `judge` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _PROGRAM).write_text(program, encoding="utf-8")


def judge(name: str, folder: Path) -> None:
    """Check the program of a folder.

    Args:
        name: of the puzzle.
        folder: the trace goes into a new one in it, of the puzzle's name.

    Raises:
        RunError: it could not be checked; with what was said.
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
    """What `judge` has left in a folder."""
    verdict: Mapping[str, Any] = json.loads((folder / _VERDICT).read_bytes())
    return TrialResult(verdict, (folder / _PRINTED).read_text(encoding="utf-8"))
