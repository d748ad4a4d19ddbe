"""`zerosim memory`: what a trace says of memory, held against the laws."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.analysis.memory import Timeline
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.ledgers import MARKS, number_range, print_verdict
from zerosim.cli.options import open_trace, whole
from zerosim.cli.plot import print_plot
from zerosim.errors import ConfigError
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.record.text import name_ranks
from zerosim.verify import CauseBytes, MemoryReport, RankPeak, verify_memory
from zerosim.verify.memory import timelines

_MOST_SENTENCES = 8
"""With more ranks than this, only the highest peaks are told."""


def memory(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    rank: Annotated[
        int | None, whole("Whose peak to tell and to draw; all, and the highest, by default.")
    ] = None,
    iteration: Annotated[
        int | None, whole("Which one to show; the last complete one by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Hold what is alive in memory against the laws; exit 1 if a claim is false."""
    trace = open_trace(folder)
    lines = timelines(trace)
    if rank is not None and rank not in lines:
        known = ", ".join(map(str, lines))
        raise ConfigError(f"rank {rank} recorded no memory in {folder}: expected one of {known}")
    report = verify_memory(trace, iteration)
    if as_json:
        print_json(report.to_plain())
    else:
        _print(make_console(), report, lines, rank=rank)
    return 1 if report.holds is False else 0


def _print(
    console: Console, report: MemoryReport, lines: dict[int, Timeline], *, rank: int | None
) -> None:
    mark, colour = MARKS[report.holds]
    console.print(Text(f"{mark} {report.headline}", style=f"bold {colour}"))
    console.print(Text("  " + " · ".join(_facts(report)), style="dim"))
    console.print()
    if report.rows:
        print_table(console, _states_table(report))
        console.print()
    if report.law_bytes is not None and report.rows:
        print_table(console, _causes_table(report))
        console.print()
    for verdict in report.verdicts:
        print_verdict(console, verdict)
    console.print()
    told = _told(report.peaks, rank)
    highest = max(told, key=lambda top: top.bytes)
    if highest.causes:
        print_table(console, _peak_table(report, highest))
        console.print()
    for sentence in _sentences(told):
        console.print(sentence)
    if rank is None and len(told) < len(report.peaks):
        console.print(f"the highest of {len(report.peaks)} ranks; --rank shows any other")
    console.print()
    drawn = report.iteration if report.iteration is not None else highest.iteration
    theory = [row.theory_bytes for row in report.rows if row.theory_bytes is not None]
    steps = drawn if drawn >= 0 else None
    print_plot(console, lines[highest.rank], steps, sum(theory) if theory else None)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow")


def _facts(report: MemoryReport) -> list[str]:
    facts = [f"{report.num_ranks} rank{'s' if report.num_ranks > 1 else ''}"]
    if report.stage is not None:
        facts = [
            f"{PSI} = {format_exact(report.num_parameters)} parameters",
            f"{report.dtype}, {report.element_bytes} B each",
            *facts,
        ]
    if report.iteration is not None:
        first, last = report.iterations[0], report.iterations[-1]
        facts.append(f"iteration {report.iteration} of {first}..{last}")
    return facts


def _told(peaks: Sequence[RankPeak], rank: int | None) -> list[RankPeak]:
    if rank is not None:
        return [top for top in peaks if top.rank == rank]
    if len(peaks) <= _MOST_SENTENCES:
        return list(peaks)
    return sorted(peaks, key=lambda top: -top.bytes)[:_MOST_SENTENCES]


def _sentences(peaks: Sequence[RankPeak]) -> list[str]:
    """One for each rank, or for all ranks whose peaks are alike."""
    alike: dict[str, list[int]] = {}
    for top in peaks:
        alike.setdefault(top.sentence.removeprefix(f"Rank {top.rank} "), []).append(top.rank)
    return [f"{name_ranks(ranks).capitalize()} {words}" for words, ranks in alike.items()]


def _states_table(report: MemoryReport) -> Table:
    if report.law_bytes is None:
        table = make_table("role", "measured", left=1)
        table.title = "bytes at the peak of each rank"
    else:
        table = make_table("role", "law", "law in bytes", "theory", "measured", left=2)
        table.title = f"bytes on each rank when the update of iteration {report.iteration} begins"
    table.title_justify = "left"
    table.title_style = "dim"
    for row in report.rows:
        measured = number_range(row.measured_bytes)
        if row.law_bytes is None or row.theory_bytes is None:
            table.add_row(row.role.value, measured)
            continue
        style = "red" if set(row.measured_bytes) != {row.theory_bytes} else ""
        cells = [format_exact(row.law_bytes), f"{row.theory_bytes:,}", measured]
        table.add_row(row.role.value, row.law, *cells, style=style)
    if report.law_bytes is not None:
        table.add_section()
        sums = [sum(sizes) for sizes in zip(*(r.measured_bytes for r in report.rows), strict=True)]
        theory = sum(row.theory_bytes or 0 for row in report.rows)
        cells = [format_exact(report.law_bytes), f"{theory:,}", number_range(sums)]
        table.add_row("model states", report.law, *cells, style="bold")
    return table


def _causes_table(report: MemoryReport) -> Table:
    """From the law to what the first rank keeps."""
    table = _bridge(f"from the law to what rank {report.ranks[0]} keeps", report, report.causes)
    measured = sum(row.measured_bytes[0] for row in report.rows)
    table.add_row("measured", f"{measured:,}", "in storages that are alive", style="bold")
    unexplained = format_exact_bytes(report.unexplained_bytes or 0)
    table.add_row("unexplained", "", f"{unexplained} in any role of any rank")
    return table


def _peak_table(report: MemoryReport, top: RankPeak) -> Table:
    """From the law to all that is alive at a peak."""
    table = _bridge(f"from the law to the peak of rank {top.rank}", report, top.causes)
    table.add_row("the peak", f"{top.bytes:,}", top.when, style="bold")
    return table


def _bridge(title: str, report: MemoryReport, causes: Sequence[CauseBytes]) -> Table:
    assert report.law_bytes is not None
    table = make_table(title, "bytes", "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    table.add_row("the law", format_exact(report.law_bytes), report.law)
    for cause in causes:
        sign = "+" if cause.bytes > 0 else ""
        style = "" if cause.is_excused else "red"
        number = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {cause.cause}", number, cause.words, style=style)
    return table
