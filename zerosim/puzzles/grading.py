"""A folder of submissions as learning platforms export them: one file, or one folder, for each.

Each submission is copied to a separate folder and runs on separate ranks, so that its output, its
files and its effects on the ranks do not affect the next one.
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
    """The result of a file.

    Attributes:
        problem: why it could not be checked; "" if it was.
        verdict: the verdict; None if it could not be checked.
    """

    file: Path
    problem: str
    verdict: PuzzleVerdict | None

    @property
    def holds(self) -> bool:
        """Whether the program passes."""
        return self.verdict is not None and self.verdict.holds


def grade(folder: Path, traces: Path, limits: Limits | None = None) -> Iterator[Grade]:
    """Check each Python file of a folder and its subfolders, each on separate ranks.

    Args:
        traces: a new folder, with a subfolder for each file, for the checked copy and its trace.

    Raises:
        ConfigError: there is no such folder, or it has no Python file.
    """
    found = folder.rglob("*.py") if folder.is_dir() else ()
    files = sorted(one for one in found if _is_handed_in(one.relative_to(folder)))
    if not files:
        raise ConfigError(
            f"grade is {folder}: expected a folder with a .py file for a submission, or with a "
            "folder for each student"
        )
    for file in files:
        try:
            puzzle = puzzle_of(file.read_text(encoding="utf-8"), file.name)
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            yield Grade(file, first_line(error), None)
            continue
        own = traces / file.relative_to(folder).with_suffix("")
        yield _judged(file, puzzle, own, limits)


def _is_handed_in(file: Path) -> bool:
    """Excludes leftovers of archives and caches: `__MACOSX`, `__pycache__`, `.git`."""
    return not any(part.startswith((".", "__")) for part in file.parts)


def _judged(file: Path, puzzle: Puzzle, own: Path, limits: Limits | None) -> Grade:
    own.mkdir(parents=True)
    copy = own / file.name
    shutil.copyfile(file, copy)
    try:
        quiet = replace(limits or Limits(), prints=False)
        return Grade(file, "", judge(Submission(puzzle, copy, own / "trace"), quiet))
    except RunError as error:
        return Grade(file, first_line(error), None)
