"""Starting the ranks of a puzzle, within limits.

Programs run one after another on the same ranks. After a program that does not end, new ranks are
started. A program that cannot run is skipped.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path

from zerosim.base.errors import RunError
from zerosim.base.language import spoken
from zerosim.puzzles.puzzle import Puzzle
from zerosim.puzzles.rank import Limits, RankSaid, Task, read_said, said_file, work_through
from zerosim.puzzles.unready import unready
from zerosim.train.launch.calls import FunctionCall, RankResult, call_on_ranks
from zerosim.train.launch.forkserver import lent


@dataclass(frozen=True, slots=True)
class Submission:
    """A program that is to be judged.

    Attributes:
        file: the program.
        folder: a new folder for its trace.
    """

    puzzle: Puzzle
    file: Path
    folder: Path


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcome of a program.

    Attributes:
        said: the outcome of each rank; None for a rank without one.
        codes: exit codes of ranks that ended early; negative for a signal.
    """

    submission: Submission
    said: tuple[RankSaid | None, ...]
    codes: dict[int, int]


def run_submissions(
    submissions: Sequence[Submission], limits: Limits | None = None
) -> Iterator[Ran]:
    """Run programs one after another, those with equally many ranks on the same ranks.

    Raises:
        EnvironmentFault: ranks cannot be started.
        RunError: the fork server was stopped.
    """
    for num_ranks, alike in groupby(submissions, lambda one: one.puzzle.ranks):
        left = list(alike)
        while left:
            said = _unready(left[0])
            if said is not None:
                yield Ran(left.pop(0), (said,) * num_ranks, {})
                continue
            ready = list(takewhile(lambda one: _unready(one) is None, left))
            results = _run(ready, num_ranks, limits or Limits())
            for one in ready:
                ran = _read(one, results)
                yield ran
                left = left[1:]
                if not all(ran.said):
                    break


def _unready(one: Submission) -> RankSaid | None:
    return unready(one.file, one.puzzle.functions)


def _read(one: Submission, results: Sequence[RankResult]) -> Ran:
    files = [said_file(one.folder, rank) for rank in range(one.puzzle.ranks)]
    said = tuple(map(read_said, files))
    for file in files:
        file.unlink(missing_ok=True)
    codes = {rank: result.code for rank, result in enumerate(results) if result.code}
    problems = [result.problem for result in results if result.problem]
    if not all(said) and problems and not codes:
        raise RunError(f"the ranks of a puzzle failed: {problems[0].strip().splitlines()[-1]}")
    return Ran(one, said, {} if all(said) else codes)


def _run(submissions: Sequence[Submission], num_ranks: int, limits: Limits) -> list[RankResult]:
    tasks = [
        Task(
            file=one.file.resolve(),
            folder=one.folder.resolve(),
            case=one.puzzle.folder / "case.py",
            exact=one.puzzle.promise.exact,
            counts_held=bool(one.puzzle.promise.held),
            language=spoken(),
        )
        for one in submissions
    ]
    for task in tasks:
        task.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="zerosim-puzzle-") as group, lent() as server:
        call = FunctionCall(
            function=work_through, args=(tasks, limits, group), timeout_s=limits.wall_s * len(tasks)
        )
        return call_on_ranks(server, call, num_ranks)
