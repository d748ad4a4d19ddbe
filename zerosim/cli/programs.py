"""A verification of a program that zerosim's engine did not run, as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from zerosim.cli.console import make_table, print_table
from zerosim.cli.ledgers import print_title, print_verdict, style_of
from zerosim.cli.numbers import number_range
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.record.text import name_ranks
from zerosim.verify import CauseBytes, ProgramReport, RankBytes, SystemLaw


def print_program(console: Console, report: ProgramReport, *, received: bool = False) -> None:
    """Print the ledgers, each law with its causes, what no law speaks of, and the verdicts."""
    print_title(console, report)
    print_table(console, _ledger_table(report, received=received))
    console.print()
    if report.systems:
        print_table(console, _causes_table(report))
        console.print()
    if report.sources:
        print_table(console, _sources_table(report))
        console.print()
    for verdict in report.verdicts:
        print_verdict(console, verdict)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow")


def _ledger_table(report: ProgramReport, *, received: bool) -> Table:
    titles = list(dict.fromkeys(row.system for row in report.rows if row.system))
    taken = {law.system for law in report.systems if law.is_likeness}
    has_plan = not taken.issuperset(titles)
    what = "received" if received else "sent"
    table = make_table("", "phase", "purpose", "calls", "theory", "trace", left=3)
    table.title = f"bytes {what} by each rank, payload only in theory and trace"
    table.title_justify = "left"
    table.title_style = "dim"
    before = ("", "")
    for row in report.rows:
        cells = row.received if received else row.sent
        system = (row.system or "beside the laws") if titles else ""
        place = (system, row.phase.value)
        table.add_row(
            "" if system == before[0] else system,
            "" if place == before else place[1],
            f"{row.purpose}: {row.op}",
            str(row.num_collectives),
            "no plan"
            if row.system in taken
            else number_range([cell.theory for cell in cells])
            if has_plan
            else "no law",
            number_range([cell.trace for cell in cells]),
        )
        before = place
    table.add_section()
    wires = report.wires_received if received else report.wires
    totals = [_sum(report, place, received=received) for place in range(len(wires))]
    theory = [sum(cell.theory for cell in cells) for cells in totals]
    table.add_row(
        "total",
        "",
        "",
        "",
        number_range(theory) if has_plan else "no plan" if taken else "no law",
        number_range([wire.trace for wire in wires]),
        style="bold",
    )
    if any(wire.algorithm for wire in wires):
        added = number_range([wire.algorithm for wire in wires])
        table.add_row(f"{report.backend}'s algorithm", "", "", "", "", added)
    table.add_row("framing", "", "", "", "", number_range([wire.framing for wire in wires]))
    if any(wire.under_way for wire in wires):
        table.add_row("under way", "", "", "", "", number_range([wire.under_way for wire in wires]))
    table.add_row("on the wire", "", "", "", "", number_range([wire.wire for wire in wires]))
    if report.element_bytes and report.num_parameters:
        unit = report.num_parameters * report.element_bytes
        traced = number_range([wire.trace for wire in wires], unit)
        planned = number_range(theory, unit) if has_plan else ""
        table.add_row(f"in {PSI}", "", "", "", planned, traced)
    return table


def _sum(report: ProgramReport, place: int, *, received: bool) -> Sequence[RankBytes]:
    return [(row.received if received else row.sent)[place] for row in report.rows]


def _causes_table(report: ProgramReport) -> Table:
    """From each law to what is sent for it; then what no law speaks of, and the wire."""
    title = f"from the law to the wire, rank {report.wires[0].rank}"
    table = make_table(title, "bytes", "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    for law in report.systems:
        words = f"{law.formula}, {law.words} ({name_ranks(list(law.ranks))})"
        table.add_row(_law_name(report, law), format_exact(law.law_bytes), words)
        _add_causes(table, law.causes)
    of_laws = sum(len(law.causes) for law in report.systems)
    _add_causes(table, report.causes[of_laws:])
    first = report.wires[0]
    if first.wire is not None:
        table.add_row("the wire", format_exact(first.wire), "measured by the kernel", style="bold")
    table.add_row("unexplained", "", _unexplained(report))
    return table


def _law_name(report: ProgramReport, law: SystemLaw) -> str:
    return "the law" if len(report.systems) == 1 else f"the law of {law.system}"


def _add_causes(table: Table, causes: Sequence[CauseBytes]) -> None:
    for cause in causes:
        sign = "+" if cause.bytes > 0 else ""
        style = style_of(cause)
        number = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {cause.cause}", number, cause.words, style=style)


def _unexplained(report: ProgramReport) -> str:
    wire = report.unexplained_wire
    text = "not measured" if wire is None else format_exact_bytes(wire)
    exact = format_exact_bytes(report.unexplained_trace)
    return f"{exact} in the trace, {text} on the wire, any rank"


def _sources_table(report: ProgramReport) -> Table:
    table = make_table("source", "phase", "purpose", "why", "calls", "bytes", left=4)
    table.title = "calls that no law speaks of, of the first rank that made them"
    table.title_justify = "left"
    table.title_style = "dim"
    for one in report.sources:
        table.add_row(
            one.source or "unknown",
            one.phase.value,
            f"{one.purpose}: {one.op}",
            one.why,
            str(one.num_calls),
            format_exact(one.sent_bytes),
        )
    return table
