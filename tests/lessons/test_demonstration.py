"""The live demonstration of the notes: its very commands show what it says to point at."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import command
from tests.deadlines import RANKS_S
from tests.lessons import notes

pytestmark = pytest.mark.ranks

SIGN = "(zerosim) "
SECTION = next(text for title, text in notes.sections().items() if title.startswith("Live: "))
ROWS = notes.cells(SECTION)
IN_BACKTICKS = re.compile(r"`([^`]+)`")


def words_that_begin(words: str) -> list[str]:
    """What a command of the section tells zerosim."""
    (found,) = {one for one in IN_BACKTICKS.findall(SECTION) if one.startswith(words)}
    return found.split()[1:]


def session(words: list[str], folder: Path, said: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "zerosim", *words],
        cwd=folder,
        input=said,
        env=os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
        timeout=RANKS_S,
    )


def test_it_takes_as_long_as_it_says():
    assert sum(int(minutes) for minutes, *_ in ROWS) == 10


def test_what_is_typed_shows_what_is_pointed_at(tmp_path):
    typed = [one for _, cell, *_ in ROWS for one in IN_BACKTICKS.findall(cell)]
    debug = [*words_that_begin("zerosim debug"), "--no-browser"]
    shown = session(debug, tmp_path, "\n".join(typed))
    assert (shown.returncode, shown.stderr) == (0, "")
    answers = shown.stdout.split(SIGN)
    done = 1
    for _, cell, point, _ in ROWS:
        count = len(IN_BACKTICKS.findall(cell))
        answer = "".join(answers[done : done + count] if count else answers[:1])
        done += count
        for words in IN_BACKTICKS.findall(point):
            assert words in answer, (cell, answer)
        if "checksums" in point:
            sums = re.findall(r"\b[0-9a-f]{8}\b", answer)
            assert len(sums) == 2
            assert len(set(sums)) == (1 if "the same" in point else 2)


def test_the_broken_run_has_the_culprit_that_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command(*words_that_begin("zerosim run")).code == 3
    found = command(*words_that_begin("zerosim diagnose"))
    assert found.code == 1
    assert found.out.startswith("rank 1 ")
