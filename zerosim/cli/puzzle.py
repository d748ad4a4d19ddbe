"""`zerosim puzzle`: a program to write, and its verdict from real ranks."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from zerosim.base.errors import ConfigError, EnvironmentFault
from zerosim.cli.console import make_console, make_table, print_json, print_lines, print_table
from zerosim.cli.folders import moment
from zerosim.cli.options import AsJson, integer
from zerosim.cli.wording import said

if TYPE_CHECKING:
    from zerosim.puzzles import Puzzle, PuzzleVerdict
    from zerosim.puzzles.grading import Grade

TRACES = Path("traces") / "puzzles"
LONGEST_WHY = 60
"""Characters of a reason in a row; `--json` has all of it."""
WRONG = 1
"""The exit code if a program does not pass."""


def puzzle(
    name: Annotated[
        str | None, typer.Argument(help="Name of a puzzle; without it, all are listed.")
    ] = None,
    *,
    check: Annotated[
        Path | None, typer.Option(help="Run this program on several ranks and check it.")
    ] = None,
    hint: Annotated[int | None, integer("Print this many hints.")] = None,
    grade: Annotated[
        Path | None,
        typer.Option(help="Check every .py file in a folder and its subfolders, of any puzzle."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the traces.")] = None,
    as_json: AsJson = False,
) -> int:
    """Print a puzzle, or check a solution; exit 1 if the check fails."""
    from zerosim.puzzles import find_puzzle

    if [check, hint, grade].count(None) < 2:
        raise ConfigError("--check, --hint and --grade exclude each other: give only one")
    if grade is not None:
        if name is not None:
            raise ConfigError(
                f"name is {name!r}: expected none with --grade, which finds it in the files"
            )
        return _grade(grade, out or TRACES / f"grades-{moment()}", as_json=as_json)
    if name is None:
        if check is not None or hint is not None:
            raise ConfigError(
                "--check and --hint are for one puzzle: expected its name before them"
            )
        return _list(as_json=as_json)
    chosen = find_puzzle(name)
    if hint is not None:
        return _print_hints(chosen, hint)
    if check is None:
        return _print_task(chosen)
    return _check(chosen, check, out or TRACES / f"{chosen.name}-{moment()}", as_json=as_json)


def _list(*, as_json: bool) -> int:
    from zerosim.puzzles import puzzles

    if as_json:
        print_json(
            [{"name": one.name, "title": one.title, "ranks": one.ranks} for one in puzzles()]
        )
        return 0
    console = make_console()
    table = make_table("", *said.each("puzzle.list"), left=3)
    for one in puzzles():
        table.add_row(str(one.number), one.name, one.title, str(one.ranks))
    print_table(console, table)
    console.print(said("common.try", advice="zerosim puzzle ring-reduce-scatter"))
    return 0


def _print_task(chosen: Puzzle) -> int:
    console = make_console()
    print_lines(console, [f"{chosen.number}. {chosen.title}", "", *chosen.words.splitlines(), ""])
    file = Path(chosen.file_name)
    if file.exists():
        console.print(said("puzzle.stays", file=file))
    else:
        try:
            file.write_text(chosen.task, encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(
                f"cannot write {file}: {error.strerror}; change to a folder that can be written"
            ) from None
        console.print(
            said("puzzle.wrote" if chosen.broken is None else "puzzle.wrote_broken", file=file)
        )
    console.print(said("puzzle.then", command=f"zerosim puzzle {chosen.name} --check {file}"))
    console.print(said("puzzle.stuck", command=f"zerosim puzzle {chosen.name} --hint 1"))
    return 0


def _print_hints(chosen: Puzzle, count: int) -> int:
    if not 1 <= count <= len(chosen.hints):
        raise ConfigError(f"hint is {count}: expected 1 to {len(chosen.hints)}")
    lines = [
        said("puzzle.hint", number=number, text=text)
        for number, text in enumerate(chosen.hints[:count], 1)
    ]
    print_lines(make_console(), lines)
    return 0


def _check(chosen: Puzzle, file: Path, out: Path, *, as_json: bool) -> int:
    from zerosim.puzzles.judge import judge
    from zerosim.puzzles.running import Submission

    if not file.is_file():
        raise ConfigError(
            f"check is {file}: expected a file; zerosim puzzle {chosen.name} writes one"
        )
    if out.exists():
        raise EnvironmentFault(f"{out} exists: give another folder")
    verdict = judge(Submission(chosen, file, out))
    if as_json:
        print_json(verdict.to_dict())
    else:
        _print_verdict(make_console(), verdict)
    return 0 if verdict.holds else WRONG


def _print_verdict(console: Console, verdict: PuzzleVerdict) -> None:
    lines = [f"✓ {words}" for words in verdict.passed]
    reason = verdict.reason
    if reason is not None:
        lines.append(f"✗ {reason.sentence}")
        if reason.line and reason.line not in reason.sentence:
            lines.append("  " + said("puzzle.at", line=reason.line))
    lines += [
        said("puzzle.score", what=one.what, found=f"{one.found:,}", bound=f"{one.bound:,}")
        for one in verdict.scores
    ]
    if verdict.trace is not None:
        folder = shlex.quote(str(verdict.trace))
        at = ""
        if verdict.step is not None:
            at = f" --iteration {verdict.iteration} --at step:{verdict.step}"
        lines.append(said("puzzle.watch", command=f"zerosim replay {folder}{at}"))
        listing = f"zerosim show {folder} --rank all --iteration all"
        lines.append(said("puzzle.list_calls", command=listing))
    name = verdict.puzzle.name
    if reason is None:
        lines += ["", said("puzzle.solved", name=name), ""]
        lines += verdict.puzzle.reference.splitlines()
    else:
        lines.append(said("puzzle.a_hint", command=f"zerosim puzzle {name} --hint 1"))
    print_lines(console, lines)


def _grade(folder: Path, out: Path, *, as_json: bool) -> int:
    from zerosim.puzzles.grading import grade

    grades: list[Grade] = []
    progress = Console(stderr=True, highlight=False, markup=False)
    for one in grade(folder, out):
        grades.append(one)
        key = "puzzle.passes" if one.holds else "puzzle.fails"
        progress.print(said(key, number=len(grades), file=one.file.relative_to(folder)))
    passed = sum(one.holds for one in grades)
    if as_json:
        print_json(
            [
                {"file": str(one.file), "problem": one.problem}
                | ({} if one.verdict is None else one.verdict.to_dict() | {"file": str(one.file)})
                for one in grades
            ]
        )
    else:
        _print_grades(folder, grades)
        make_console().print(said("puzzle.passed", passed=passed, all=len(grades), out=out))
    return 0 if passed == len(grades) else WRONG


def _print_grades(folder: Path, grades: Sequence[Grade]) -> None:
    """One line per file: its puzzle, the number of passed checks, the failed one and why."""
    table = make_table("", *said.each("puzzle.grades"), left=6)
    table.columns[-1].no_wrap = False
    for one in grades:
        verdict = one.verdict
        mark = "✓" if one.holds else "✗"
        name = str(one.file.relative_to(folder))
        if verdict is None:
            table.add_row(
                mark, name, "", "", "", textwrap.shorten(one.problem, LONGEST_WHY, placeholder=" …")
            )
        else:
            reason = verdict.reason
            check, why = ("", "") if reason is None else (reason.check, reason.sentence)
            hold = said("puzzle.hold", passed=len(verdict.passed), all=len(verdict.rows))
            why = textwrap.shorten(why, LONGEST_WHY, placeholder=" …")
            table.add_row(mark, name, verdict.puzzle.name, hold, check, why)
    print_table(make_console(), table)
