"""`zerosim memory`: what a trace says of memory, held against the laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from zerosim.analysis.memory import Timeline
from zerosim.cli.addresses import print_addresses
from zerosim.cli.console import make_console, print_json, print_table
from zerosim.cli.ledgers import print_answer, print_verdict, word_of
from zerosim.cli.memory_tables import peak_table, states_tables
from zerosim.cli.options import integer, open_trace
from zerosim.cli.plot import print_plot
from zerosim.errors import ConfigError
from zerosim.quantities import PSI, format_exact
from zerosim.record import Trace
from zerosim.record.text import name_ranks
from zerosim.tiers import Tier
from zerosim.verify import MemoryReport, RankPeak, verify_memory
from zerosim.verify.memory import timelines
from zerosim.verify.memory_plan import PLACES
from zerosim.verify.memory_report import TierPeak
from zerosim.verify.outcome import exit_code

_MOST_SENTENCES = 8
"""With more ranks than this, only the highest peaks are told."""
P = TypeVar("P", RankPeak, TierPeak)


def memory(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    rank: Annotated[
        int | None,
        integer("Rank whose peak to explain and draw; by default all, with the highest drawn."),
    ] = None,
    iteration: Annotated[
        int | None,
        integer("Iteration to show; by default the last complete one, with the peaks of all."),
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
        beyond = {each.tier: timelines(trace, each.tier) for each in report.tiers}
        _print(make_console(), trace, report, {Tier.DEVICE: lines} | beyond, rank=rank)
    return exit_code([report.outcome])


def _print(
    console: Console,
    trace: Trace,
    report: MemoryReport,
    lines: Mapping[Tier, Mapping[int, Timeline]],
    *,
    rank: int | None,
) -> None:
    print_answer(console, report.outcome, report.headline)
    facts = [word_of(report.outcome), *_facts(report)]
    console.print(Text("  " + " · ".join(facts), style="dim"))
    console.print()
    for table in states_tables(report):
        print_table(console, table)
        console.print()
    for verdict in report.verdicts:
        print_verdict(console, verdict)
    console.print()
    told = _told(report.peaks, rank)
    highest = max(told, key=lambda top: top.bytes)
    if highest.causes:
        print_table(console, peak_table(report, highest))
        console.print()
    beyond = [sentence for tier in report.tiers for sentence in _sentences(_told(tier.peaks, rank))]
    for sentence in [*_sentences(told), *beyond]:
        console.print(sentence)
    if rank is None and len(told) < len(report.peaks):
        console.print(f"the highest of {len(report.peaks)} ranks; --rank shows any other")
    console.print()
    drawn = highest.iteration
    _draw(console, report, lines, highest.rank, drawn if drawn >= 0 else None)
    print_addresses(console, trace, highest.rank, drawn if drawn >= 0 else None)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow")


def _draw(
    console: Console,
    report: MemoryReport,
    lines: Mapping[Tier, Mapping[int, Timeline]],
    rank: int,
    iteration: int | None,
) -> None:
    """One picture a tier."""
    of_tiers = {Tier.DEVICE: report.rows} | {each.tier: each.rows for each in report.tiers}
    for tier, rows in of_tiers.items():
        theory = [row.theory_bytes for row in rows if row.theory_bytes is not None]
        place = PLACES[tier] if report.tiers else ""
        if tier is not Tier.DEVICE:
            console.print()
        print_plot(console, lines[tier][rank], iteration, sum(theory) if theory else None, place)


def _facts(report: MemoryReport) -> list[str]:
    facts = [f"{report.num_ranks} rank{'s' if report.num_ranks > 1 else ''}"]
    if report.stage is not None:
        facts.insert(0, f"{report.dtype}, {report.element_bytes} B each")
    if report.num_parameters:
        facts.insert(0, f"{PSI} = {format_exact(report.num_parameters)} parameters")
    if report.iteration is not None:
        first, last = report.iterations[0], report.iterations[-1]
        facts.append(f"iteration {report.iteration} of {first}..{last}")
    return facts


def _told(peaks: Sequence[P], rank: int | None) -> list[P]:
    if rank is not None:
        return [top for top in peaks if top.rank == rank]
    if len(peaks) <= _MOST_SENTENCES:
        return list(peaks)
    return sorted(peaks, key=lambda top: -top.bytes)[:_MOST_SENTENCES]


def _sentences(peaks: Sequence[RankPeak | TierPeak]) -> list[str]:
    """One for each rank, or for all ranks whose peaks are alike."""
    alike: dict[str, list[int]] = {}
    for top in peaks:
        alike.setdefault(top.sentence.removeprefix(f"Rank {top.rank} "), []).append(top.rank)
    return [f"{name_ranks(ranks).capitalize()} {words}" for words, ranks in alike.items()]
