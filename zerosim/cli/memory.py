"""`zerosim memory`: the memory of a trace, compared with the laws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeVar

from rich.console import Console
from rich.text import Text

from zerosim.base.errors import ConfigError
from zerosim.base.language import begun
from zerosim.base.quantities import PSI, format_exact
from zerosim.base.tiers import Tier
from zerosim.cli.addresses import print_addresses
from zerosim.cli.console import make_console, print_json, print_table
from zerosim.cli.memory_tables import peak_table, states_tables
from zerosim.cli.options import AsJson, TraceFolder, Verbose, integer, open_run
from zerosim.cli.plot import print_plot
from zerosim.cli.verdicts import print_answer, print_verdicts, word_of
from zerosim.cli.wording import counted, said
from zerosim.record.text import name_iterations, name_ranks
from zerosim.verify import MemoryReport, RankPeak
from zerosim.verify.memory_report import TierPeak
from zerosim.verify.outcome import exit_code
from zerosim.view.reading import Run

_MOST_SENTENCES = 8
"""With more ranks than this, only the highest peaks are listed."""
P = TypeVar("P", RankPeak, TierPeak)


def memory(
    folder: TraceFolder,
    *,
    rank: Annotated[
        int | None,
        integer(
            "Rank whose peak to explain and draw; by default, all are explained and "
            "the highest is drawn."
        ),
    ] = None,
    iteration: Annotated[
        int | None,
        integer(
            "Iteration to show; by default, the last complete one with the peaks of all iterations."
        ),
    ] = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> int:
    """Compare live tensors with the memory laws; exit 1 if a claim is false."""
    run = open_run(folder)
    recorded = [one.rank for one in run.trace.ranks if one.memory_samples]
    if recorded and rank is not None and rank not in recorded:
        known = ", ".join(map(str, recorded))
        raise ConfigError(f"rank {rank} recorded no memory in {folder}: expected one of {known}")
    found = run.verify_memory(iteration=iteration)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(make_console(), run, found.report, rank=rank, is_whole=verbose)
    return exit_code([found.outcome])


def _print(
    console: Console,
    run: Run,
    report: MemoryReport,
    *,
    rank: int | None,
    is_whole: bool,
) -> None:
    print_answer(console, report.outcome, report.headline)
    facts = [word_of(report.outcome), *_facts(report)]
    console.print(Text("  " + " · ".join(facts), style="dim"))
    console.print()
    for table in states_tables(report):
        print_table(console, table)
        console.print()
    print_verdicts(console, report.verdicts, is_whole=is_whole)
    console.print()
    told = _told(report.peaks, rank)
    highest = max(told, key=lambda top: top.bytes)
    if highest.causes:
        print_table(console, peak_table(report, highest))
        console.print()
    beyond = [sentence for tier in report.tiers for sentence in _sentences(_told(tier.peaks, rank))]
    shown = told if is_whole else [highest]
    for sentence in [*_sentences(shown), *beyond]:
        console.print(sentence)
    if rank is None and len(shown) < len(report.peaks):
        console.print(said("memory.highest", count=len(report.peaks)))
    console.print()
    drawn = highest.iteration
    _draw(console, run, report, highest.rank, drawn if drawn >= 0 else None)
    print_addresses(console, run.trace, highest.rank, drawn if drawn >= 0 else None)
    for note in report.notes:
        console.print(said("common.note", note=note), style="yellow")


def _draw(
    console: Console, run: Run, report: MemoryReport, rank: int, iteration: int | None
) -> None:
    """One picture per tier."""
    for one in (report.device, *report.tiers):
        theory = [row.theory_bytes for row in one.rows if row.theory_bytes is not None]
        place = one.tier.place if report.tiers else ""
        if one.tier is not Tier.DEVICE:
            console.print()
        line = run.timeline(rank, one.tier)
        print_plot(console, line, iteration, sum(theory) if theory else None, place)


def _facts(report: MemoryReport) -> list[str]:
    facts = [counted("ranks", report.num_ranks)]
    if report.dtype:
        facts.insert(0, said("common.each", dtype=report.dtype, size=report.element_bytes))
    if report.num_parameters:
        count = format_exact(report.num_parameters)
        facts.insert(0, said("common.parameters", psi=PSI, count=count))
    if report.iteration is not None:
        shown = name_iterations(report.iterations, "..")
        facts.append(said("common.iteration", iteration=report.iteration, iterations=shown))
    return facts


def _told(peaks: Sequence[P], rank: int | None) -> list[P]:
    if rank is not None:
        return [top for top in peaks if top.rank == rank]
    if len(peaks) <= _MOST_SENTENCES:
        return list(peaks)
    return sorted(peaks, key=lambda top: -top.bytes)[:_MOST_SENTENCES]


def _sentences(peaks: Sequence[RankPeak | TierPeak]) -> list[str]:
    """One for each rank, or for all ranks with equal peaks."""
    alike: dict[str, list[int]] = {}
    for top in peaks:
        who = begun(name_ranks([top.rank]))
        alike.setdefault(top.sentence.removeprefix(f"{who} "), []).append(top.rank)
    return [f"{begun(name_ranks(ranks))} {words}" for words, ranks in alike.items()]
