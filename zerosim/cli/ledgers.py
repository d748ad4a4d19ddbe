"""A verification as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.cli.console import make_table, print_table
from zerosim.cli.numbers import number, number_range
from zerosim.cli.places import counter_cells, counter_columns, place_tables
from zerosim.config import STAGE_NAMES
from zerosim.events import Algorithm
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.verify import CauseBytes, Outcome, RankBytes, Report, Verdict

_MOST_COLUMNS = 8
"""With more ranks than this, their wire is shown as a range."""
_OTHER_COLUMNS = 53
"""Width of phase, purpose and calls."""


def print_report(console: Console, report: Report, *, received: bool = False) -> None:
    """Print everything that a verification found."""
    print_title(console, report)
    print_table(console, _ledger_table(report, _wire_columns(report, console), received=received))
    console.print()
    for table in place_tables(report):
        print_table(console, table)
        console.print()
    if report.law_bytes is not None:
        print_table(console, _causes_table(report))
        console.print()
    for verdict in report.verdicts:
        print_verdict(console, verdict)
    for note in report.notes:
        console.print(f"note: {note}", style="yellow")


def mark_of(outcome: Outcome | None) -> Text:
    """The sign of an outcome in its colour; a dash for what was not checked."""
    return Text("-", style="dim") if outcome is None else Text(outcome.sign, style=outcome.colour)


def word_of(outcome: Outcome | None) -> str:
    """An outcome in words."""
    return "nothing predicted" if outcome is None else outcome.value


def print_answer(console: Console, outcome: Outcome | None, headline: str) -> None:
    """The answer in a sentence, with its sign."""
    mark = mark_of(outcome)
    console.print(Text(f"{mark} {headline}", style=f"bold {mark.style}"))


def style_of(cause: CauseBytes) -> str:
    """Of a row that says a cause: the colour of what it makes of the law."""
    is_left_out = cause.outcome is Outcome.AS_PREDICTED
    return "" if is_left_out else cause.outcome.colour


def print_title(console: Console, report: Report) -> None:
    """The answer in a sentence, and what was run."""
    print_answer(console, report.outcome, report.headline)
    plural = "s" if report.num_ranks > 1 else ""
    facts = [f"{report.num_ranks} rank{plural}", _carrier(report)]
    if report.stage is not None:
        facts = [
            f"{PSI} = {format_exact(report.num_parameters)} parameters",
            f"{report.dtype}, {report.element_bytes} B each",
            *facts,
            f"{report.accumulate} micro-step{'s' if report.accumulate > 1 else ''}",
        ]
    shown = f"iteration {report.iteration} of {report.iterations[0]}..{report.iterations[-1]}"
    if report.iteration < 0:
        shown = "all that was recorded"
    facts = [word_of(report.outcome), *facts, shown]
    console.print(Text("  " + " · ".join(facts), style="dim"))
    console.print()


def _carrier(report: Report) -> str:
    own = report.algorithm == Algorithm.RING
    return f"ring over {report.backend}" if own else f"{report.backend}'s own collectives"


def _ledger_table(report: Report, wire_columns: list[str], *, received: bool) -> Table:
    what = "received" if received else "sent"
    table = make_table("phase", "purpose", "calls", "theory", "trace", *wire_columns, left=2)
    table.title = f"bytes {what} by each rank, payload only in theory and trace"
    table.title_justify = "left"
    table.title_style = "dim"
    previous = ""
    for row in report.rows:
        cells = row.received if received else row.sent
        phase = "" if row.phase == previous else row.phase.value
        previous = row.phase.value
        table.add_row(
            phase,
            f"{row.purpose}: {row.op}",
            str(row.num_collectives),
            "no law" if report.law_bytes is None else number_range([cell.theory for cell in cells]),
            number_range([cell.trace for cell in cells]),
            *_wire_cells(cells, len(wire_columns)),
        )
    table.add_section()
    table.add_row(
        "total", "", "", *_totals(report, len(wire_columns), received=received), style="bold"
    )
    if report.law_bytes is None and any(report.outside_bytes) and not received:
        counted = report.outside_bytes
        narrow = len(wire_columns) < len(counted)
        wires = [number_range(counted)] if narrow else [number(value) for value in counted]
        table.add_row("kernel", "counted beside all calls", "", "", "", *wires)
    if report.element_bytes and report.num_parameters:
        unit = report.num_parameters * report.element_bytes
        totals = _totals(report, len(wire_columns), received=received, unit=unit)
        table.add_row("", f"in {PSI}", "", *totals)
    return table


def _wire_columns(report: Report, console: Console) -> list[str]:
    """One for each rank, or one for all of them where that is too wide."""
    total = max((report.total("theory", rank) or 0 for rank in range(report.num_ranks)), default=0)
    width = _OTHER_COLUMNS + (report.num_ranks + 2) * (len(f"{total:,}") + 2)
    if report.num_ranks > _MOST_COLUMNS or width > console.width:
        return ["wire, all ranks"]
    return [f"wire {rank}" for rank in range(report.num_ranks)]


def _wire_cells(cells: Sequence[RankBytes], columns: int) -> list[str]:
    values = [cell.wire for cell in cells]
    if columns < len(values):
        return [number_range(values)]
    return [number(value) for value in values]


def _totals(
    report: Report, num_wires: int, *, received: bool, unit: int | None = None
) -> list[str]:
    by_rank = [
        [(row.received if received else row.sent)[rank] for row in report.rows]
        for rank in range(report.num_ranks)
    ]
    theory = [sum(cell.theory for cell in cells) for cells in by_rank]
    trace = [sum(cell.trace for cell in cells) for cells in by_rank]
    wire = [_sum([cell.wire for cell in cells]) for cells in by_rank]
    narrow = num_wires < len(wire)
    wires = [number_range(wire, unit)] if narrow else [number(value, unit) for value in wire]
    bound = "no law" if report.law_bytes is None else number_range(theory, unit)
    return [bound, number_range(trace, unit), *wires]


def _sum(values: Sequence[int | None]) -> int | None:
    return None if None in values else sum(value or 0 for value in values)


def _causes_table(report: Report) -> Table:
    table = make_table("from the law to the wire, rank 0", "bytes", "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    assert report.law_bytes is not None
    table.add_row("the law", format_exact(report.law_bytes), report.law)
    for cause in report.causes:
        sign = "+" if cause.bytes > 0 else ""
        style = style_of(cause)
        number = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {cause.cause}", number, cause.words, style=style)
    measured = report.total("wire", 0)
    if measured is not None:
        table.add_row("the wire", format_exact(measured), "measured by the kernel", style="bold")
    unexplained = report.unexplained_wire
    text = "not measured" if unexplained is None else format_exact_bytes(unexplained)
    exact = format_exact_bytes(report.unexplained_trace)
    table.add_row("unexplained", "", f"{exact} in the trace, {text} on the wire, any rank")
    return table


def print_verdict(console: Console, verdict: Verdict) -> None:
    """A claim, whether it holds, and what was measured."""
    is_told = verdict.outcome in (Outcome.EXPLAINED, Outcome.UNEXPLAINED)
    word = f" ({verdict.outcome})" if is_told else ""
    console.print(Text.assemble(mark_of(verdict.outcome), f" {verdict.title}{word}"))
    law = f"{verdict.formula}; " if verdict.formula else ""
    console.print(Text(f"    {law}measured {verdict.measured}", style="dim"))


def print_summary(console: Console, rows: Sequence[tuple[Report, str]]) -> None:
    """One line for each run: what its law says, what was sent, what it learned.

    Args:
        rows: reports and the losses of their runs, in words.
    """
    columns = counter_columns([report for report, _ in rows])
    in_psi = f"trace in {PSI}"
    table = make_table(
        "", "law", "theory", "trace", in_psi, "wire", *columns, "loss", "verdict", left=2
    )
    table.title = "bytes sent by rank 0 in a step"
    table.title_justify = "left"
    table.title_style = "dim"
    for report, losses in rows:
        unit = report.num_parameters * report.element_bytes
        trace = report.total("trace", 0)
        table.add_row(
            STAGE_NAMES.get(report.stage if report.stage is not None else -1, ""),
            _law_words(report),
            number(report.total("theory", 0)),
            number(trace),
            number(trace, unit),
            number(report.total("wire", 0)),
            *counter_cells(report, columns),
            losses,
            mark_of(report.outcome),
        )
    print_table(console, table)


def _law_words(report: Report) -> str:
    if report.law_bytes is None:
        return ""
    return report.law_symbols if report.num_ranks > 1 else f"0{PSI}(N-1)/N"
