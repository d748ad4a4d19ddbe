"""A folder of submissions, a file each.

Each is judged as a copy in a folder of its own, on ranks of its own: what one program does to its
ranks, or prints, or leaves behind is no matter of the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from zerosim.base.errors import ConfigError, RunError, first_line
from zerosim.puzzles.judge import judge
from zerosim.puzzles.puzzle import Puzzle, puzzle_of
from zerosim.puzzles.rank import Limits
from zerosim.puzzles.running import Submission
from zerosim.puzzles.verdict import PuzzleVerdict


@dataclass(frozen=True, slots=True)
class Grade:
    """What becomes of a file.

    Attributes:
        problem: why it could not be judged; "" if it was.
        verdict: None if it could not.
    """

    file: Path
    problem: str
    verdict: PuzzleVerdict | None

    @property
    def holds(self) -> bool:
        """Whether the program passes."""
        return self.verdict is not None and self.verdict.holds


def grade(folder: Path, traces: Path, limits: Limits | None = None) -> Iterator[Grade]:
    """Judge each Python file of a folder, each on ranks of its own.

    Args:
        traces: a new folder; in it one for each, with the copy that was judged and its trace.

    Raises:
        ConfigError: there is no such folder, or it holds no Python file.
    """
    files = sorted(folder.glob("*.py")) if folder.is_dir() else []
    if not files:
        raise ConfigError(f"grade is {folder}: expected a folder with a .py file for a submission")
    for file in files:
        try:
            puzzle = puzzle_of(file.read_text(encoding="utf-8"), file.name)
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            yield Grade(file, first_line(error), None)
            continue
        yield _judged(file, puzzle, traces / file.stem, limits)


def _judged(file: Path, puzzle: Puzzle, own: Path, limits: Limits | None) -> Grade:
    own.mkdir(parents=True)
    copy = own / file.name
    shutil.copyfile(file, copy)
    try:
        quiet = replace(limits or Limits(), prints=False)
        return Grade(file, "", judge(Submission(puzzle, copy, own / "trace"), quiet))
    except RunError as error:
        return Grade(file, first_line(error), None)
