"""Memory as tables on a terminal: model states by role and tier, and the derivation of a peak."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from rich.table import Table

from zerosim.base.language import term
from zerosim.base.quantities import format_exact, format_exact_bytes
from zerosim.base.tiers import Tier
from zerosim.cli.console import make_table
from zerosim.cli.numbers import number_range
from zerosim.cli.verdicts import style_of
from zerosim.cli.wording import said
from zerosim.schema.memory import Role
from zerosim.verify import CauseBytes, MemoryReport, RankPeak
from zerosim.verify.memory_report import TierReport


def counted(report: MemoryReport) -> str:
    """The word for the source of sizes: "dry run" or "measured"."""
    return said("memory.dry" if report.is_dry else "memory.measured")


def states_tables(report: MemoryReport) -> Iterator[Table]:
    """For each tier with model states: its roles, and the derivation from the law to the bytes."""
    if report.law_bytes is None:
        if report.rows:
            yield _measured_table(report)
        return
    for states in (report.device, *report.tiers):
        if states.rows:
            yield _states_table(report, states)
            yield _causes_table(report, states)


def _measured_table(report: MemoryReport) -> Table:
    table = make_table(said("memory.role"), counted(report), title=said("memory.at_peaks"))
    for row in report.rows:
        table.add_row(term(row.role), number_range(row.measured_bytes))
    return table


def _states_table(report: MemoryReport, states: TierReport) -> Table:
    title = said(
        "memory.on_tier" if report.tiers else "memory.on",
        place=states.tier.place,
        iteration=report.iteration,
    )
    table = make_table(*said.each("memory.columns"), counted(report), left=2, title=title)
    for row in states.rows:
        assert row.law_bytes is not None
        style = "" if row.measured_bytes == row.theory_of_ranks else "red"
        sizes = [number_range(row.theory_of_ranks), number_range(row.measured_bytes)]
        cells = [format_exact(row.law_bytes), *sizes]
        table.add_row(term(row.role), row.law, *cells, style=style)
    table.add_section()
    theory = [row.theory_of_ranks for row in states.rows]
    measured = [row.measured_bytes for row in states.rows]
    sums = [number_range([sum(of) for of in zip(*by, strict=True)]) for by in (theory, measured)]
    has_all = any(row.role is Role.GRADIENTS for row in states.rows) or report.tiers
    table.add_row(
        said("memory.model_states" if has_all else "memory.together"),
        states.law,
        format_exact(states.law_bytes),
        *sums,
        style="bold",
    )
    return table


def _causes_table(report: MemoryReport, states: TierReport) -> Table:
    """The derivation from the law to the memory of the first rank."""
    key = "memory.keeps_at" if report.tiers else "memory.keeps"
    title = said(key, rank=report.ranks[0], place=states.tier.place)
    table = _bridge(title, states.causes, states.law, states.law_bytes)
    measured = sum(row.measured_bytes[0] for row in states.rows)
    what = said("memory.in_files" if states.tier is Tier.DISK else "memory.in_storages")
    table.add_row(counted(report), f"{measured:,}", what, style="bold")
    unexplained = format_exact_bytes(report.unexplained_bytes or 0)
    key = "memory.unexplained_tier" if report.tiers else "memory.unexplained"
    table.add_row(said("ledger.unexplained"), "", said(key, bytes=unexplained))
    return table


def peak_table(report: MemoryReport, top: RankPeak) -> Table:
    """The derivation from the law to all live tensors at a peak of the device."""
    assert report.law_bytes is not None
    key = "memory.peak_at" if report.tiers else "memory.peak"
    title = said(key, rank=top.rank, place=Tier.DEVICE.place)
    table = _bridge(title, top.causes, report.law, report.law_bytes)
    table.add_row(said("memory.the_peak"), f"{top.bytes:,}", top.when, style="bold")
    return table


def _bridge(title: str, causes: Sequence[CauseBytes], law: str, law_bytes: Fraction) -> Table:
    table = make_table(title, said("ledger.bytes"), "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    table.add_row(said("ledger.law"), format_exact(law_bytes), law)
    for cause in causes:
        sign = "+" if cause.bytes > 0 else ""
        style = style_of(cause)
        number = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {term(cause.cause)}", number, cause.words, style=style)
    return table
