"""Memory as tables on a terminal: model states by role and tier, and how a peak comes about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from rich.table import Table

from zerosim.cli.console import make_table
from zerosim.cli.ledgers import style_of
from zerosim.cli.numbers import number_range
from zerosim.memory import Role
from zerosim.quantities import format_exact, format_exact_bytes
from zerosim.tiers import Tier
from zerosim.verify import CauseBytes, MemoryReport, RankPeak
from zerosim.verify.memory_report import TierReport


def counted(report: MemoryReport) -> str:
    """Where sizes are from: nothing was measured of a run that had no memory."""
    return "dry run" if report.is_dry else "measured"


def states_tables(report: MemoryReport) -> Iterator[Table]:
    """Of each tier that has model states: its roles, and the way from the law to what is kept."""
    if report.law_bytes is None:
        if report.rows:
            yield _measured_table(report)
        return
    for states in (report.device, *report.tiers):
        if states.rows:
            yield _states_table(report, states)
            yield _causes_table(report, states)


def _measured_table(report: MemoryReport) -> Table:
    table = make_table("role", counted(report), title="bytes at the peak of each rank")
    for row in report.rows:
        table.add_row(row.role.value, number_range(row.measured_bytes))
    return table


def _states_table(report: MemoryReport, states: TierReport) -> Table:
    where = f"{states.tier.place} of" if report.tiers else "on"
    title = f"bytes {where} each rank when the update of iteration {report.iteration} begins"
    table = make_table(
        "role", "law", "law in bytes", "theory", counted(report), left=2, title=title
    )
    for row in states.rows:
        assert row.law_bytes is not None
        style = "" if row.measured_bytes == row.theory_of_ranks else "red"
        sizes = [number_range(row.theory_of_ranks), number_range(row.measured_bytes)]
        cells = [format_exact(row.law_bytes), *sizes]
        table.add_row(row.role.value, row.law, *cells, style=style)
    table.add_section()
    theory = [row.theory_of_ranks for row in states.rows]
    measured = [row.measured_bytes for row in states.rows]
    sums = [number_range([sum(of) for of in zip(*by, strict=True)]) for by in (theory, measured)]
    has_all = any(row.role is Role.GRADIENTS for row in states.rows) or report.tiers
    table.add_row(
        "model states" if has_all else "together",
        states.law,
        format_exact(states.law_bytes),
        *sums,
        style="bold",
    )
    return table


def _causes_table(report: MemoryReport, states: TierReport) -> Table:
    """From the law to what the first rank keeps."""
    where = f" {states.tier.place}" if report.tiers else ""
    title = f"from the formula to what rank {report.ranks[0]} keeps{where}"
    table = _bridge(title, states.causes, states.law, states.law_bytes)
    measured = sum(row.measured_bytes[0] for row in states.rows)
    what = "in files" if states.tier is Tier.DISK else "in storages that are alive"
    table.add_row(counted(report), f"{measured:,}", what, style="bold")
    unexplained = format_exact_bytes(report.unexplained_bytes or 0)
    tiers = " and tier" if report.tiers else ""
    table.add_row("unexplained", "", f"{unexplained} in any role{tiers} of any rank")
    return table


def peak_table(report: MemoryReport, top: RankPeak) -> Table:
    """From the law to all that is alive at a peak of the device."""
    assert report.law_bytes is not None
    where = f" {Tier.DEVICE.place}" if report.tiers else ""
    title = f"from the formula to the peak of rank {top.rank}{where}"
    table = _bridge(title, top.causes, report.law, report.law_bytes)
    table.add_row("the peak", f"{top.bytes:,}", top.when, style="bold")
    return table


def _bridge(title: str, causes: Sequence[CauseBytes], law: str, law_bytes: Fraction) -> Table:
    table = make_table(title, "bytes", "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    table.add_row("the law", format_exact(law_bytes), law)
    for cause in causes:
        sign = "+" if cause.bytes > 0 else ""
        style = style_of(cause)
        number = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {cause.cause}", number, cause.words, style=style)
    return table
