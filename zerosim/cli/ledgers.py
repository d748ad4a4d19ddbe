"""A verification as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zerosim.base.config import STAGE_NAMES
from zerosim.base.language import term
from zerosim.base.quantities import PSI, format_exact, format_exact_bytes
from zerosim.cli.console import make_table, print_table
from zerosim.cli.link_tables import counter_cells, counter_columns, place_tables
from zerosim.cli.numbers import not_measured, number, number_range
from zerosim.cli.verdicts import mark_of, print_answer, print_verdicts, style_of, word_of
from zerosim.cli.wording import counted, said
from zerosim.record.text import name_iterations, name_ranks
from zerosim.schema.events import Algorithm
from zerosim.verify import CauseBytes, Outcome, RankBytes, Report
from zerosim.verify.report import total

_MOST_COLUMNS = 8
"""With more ranks than this, their wire is shown as a range."""
_OTHER_COLUMNS = 53
"""Width of phase, purpose and calls."""


def print_report(
    console: Console, report: Report, *, received: bool = False, is_whole: bool = False
) -> None:
    """Print the result of a verification.

    Args:
        received: show bytes received instead of sent.
        is_whole: also print the derivation from the law to the wire, and the claims that hold.
    """
    print_title(console, report)
    wires = _wire_columns(report, console, received=received) if report.wire_by_call else []
    tables = [_ledger_table(report, wires, received=received), *place_tables(report)]
    if report.law_bytes is not None and (is_whole or report.outcome is not Outcome.AS_PREDICTED):
        tables.append(_causes_table(report))
    if report.sources:
        tables.append(_sources_table(report))
    for table in tables:
        print_table(console, table)
        console.print()
    print_verdicts(console, report.verdicts, is_whole=is_whole)
    for note in report.notes:
        console.print(said("common.note", note=note), style="yellow")


def print_title(console: Console, report: Report) -> None:
    """The answer in a sentence, and the description of the run."""
    print_answer(console, report.outcome, report.headline)
    facts = [counted("ranks", report.num_ranks), _carrier(report)]
    if report.stage is not None:
        facts = [
            said("common.parameters", psi=PSI, count=format_exact(report.num_parameters)),
            said("common.each", dtype=report.dtype, size=report.element_bytes),
            *facts,
            counted("micro_steps", report.accumulate),
        ]
    shown = said(
        "common.everything" if report.iteration < 0 else "common.iteration",
        iteration=report.iteration,
        iterations=name_iterations(report.iterations, ".."),
    )
    facts = [word_of(report.outcome), *facts, shown]
    console.print(Text("  " + " · ".join(facts), style="dim"))
    console.print()


def _carrier(report: Report) -> str:
    own = report.algorithm == Algorithm.RING
    return said("ledger.ring" if own else "ledger.own", backend=report.backend)


def _ledger_table(report: Report, wire_columns: list[str], *, received: bool) -> Table:
    # a row names its law if there is more than one answer
    systems = [""] if len({row.system for row in report.rows}) > 1 else []
    columns = (*systems, *said.each("ledger.columns"), *wire_columns)
    title = said("ledger.received" if received else "ledger.sent")
    table = make_table(*columns, left=2 + len(systems), title=title)
    before = ("", "")
    for row in report.rows:
        cells = row.received if received else row.sent
        place = (row.system, row.phase.value)
        names = [term(row.system) or said("ledger.overhead")] if systems else []
        table.add_row(
            *("" if row.system == before[0] else name for name in names),
            "" if place == before else term(row.phase),
            said("ledger.call", purpose=term(row.purpose), op=term(row.op or "")),
            str(row.num_calls),
            _theory(report, cells, row.system),
            number_range([cell.trace for cell in cells]),
            *_wire_cells(cells, len(wire_columns)),
        )
        before = place
    table.add_section()
    for name, cells_of in _total_rows(report, wire_columns, received=received):
        label = [*name, *([""] * (len(systems) + 3 - len(name)))]
        table.add_row(*label, *cells_of, style="bold" if name == (said("common.total"),) else "")
    return table


def _theory(
    report: Report, cells: Sequence[RankBytes], system: str, unit: int | None = None
) -> str:
    """The planned bytes; in words if there is no plan or no law."""
    taken = {law.system for law in report.systems if law.is_likeness}
    if system in taken or (taken and taken.issuperset(law.system for law in report.systems)):
        return said("ledger.no_plan")
    known = [cell.theory for cell in cells]
    return (
        said("ledger.no_law") if None in known or not report.systems else number_range(known, unit)
    )


def _total_rows(
    report: Report, wire_columns: list[str], *, received: bool
) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The sum of all rows, and the derivation of the wire if calls have none of their own."""
    wires = report.wires_received if received else report.wires
    yield (said("common.total"),), _totals(report, len(wire_columns), received=received)
    if not report.wire_by_call:
        columns: dict[str, list[int | None]] = {
            "algorithm": [wire.algorithm for wire in wires],
            "framing": [wire.framing for wire in wires],
            "under_way": [wire.under_way for wire in wires],
            "on_the_wire": [wire.wire for wire in wires],
        }
        for name, values in columns.items():
            if any(values) or name in ("framing", "on_the_wire"):
                label = said(f"ledger.{name}", backend=report.backend)
                yield (label,), ["", number_range(values)]
    elif not report.systems and any(report.outside_bytes) and not received:
        outside = report.outside_bytes
        narrow = len(wire_columns) < len(outside)
        cells = [number_range(outside)] if narrow else [number(value) for value in outside]
        yield (said("ledger.kernel"), said("ledger.outside")), ["", "", *cells]
    if report.element_bytes and report.num_parameters:
        unit = report.num_parameters * report.element_bytes
        in_psi = said("ledger.in_psi", psi=PSI)
        yield (
            ("", in_psi) if report.wire_by_call else (in_psi,),
            _totals(report, len(wire_columns), received=received, unit=unit),
        )


def _wire_columns(report: Report, console: Console, *, received: bool) -> list[str]:
    """One column per rank; a single one if all are equal, or if that is too wide."""
    rows = [row.received if received else row.sent for row in report.rows]
    are_alike = all(len({cell.kernel for cell in cells}) == 1 for cells in rows)
    places = range(len(report.wires))
    most = max((report.total("theory", place) or 0 for place in places), default=0)
    width = _OTHER_COLUMNS + (report.num_ranks + 2) * (len(f"{most:,}") + 2)
    if are_alike or report.num_ranks > _MOST_COLUMNS or width > console.width:
        return [said("ledger.all_wires")]
    return [said("ledger.wire", rank=rank) for rank in range(report.num_ranks)]


def _wire_cells(cells: Sequence[RankBytes], columns: int) -> list[str]:
    values = [cell.kernel for cell in cells]
    if columns == 0:
        return []
    return [number_range(values)] if columns < len(values) else [number(value) for value in values]


def _totals(
    report: Report, num_wires: int, *, received: bool, unit: int | None = None
) -> list[str]:
    by_rank = [
        [(row.received if received else row.sent)[place] for row in report.rows]
        for place in range(len(report.wires))
    ]
    if report.unrecorded:
        known = [sum(cell.trace for cell in cells) for cells in by_rank]
        return [_theory(report, [], ""), _at_least(known, unit), *[not_measured()] * num_wires]
    sums: list[RankBytes] = [
        RankBytes(
            rank=place,
            theory=total(cells, "theory"),
            trace=sum(cell.trace for cell in cells),
            kernel=total(cells, "kernel"),
        )
        for place, cells in enumerate(by_rank)
    ]
    wires = [number(cell.kernel, unit) for cell in sums]
    if num_wires < len(wires):
        wires = [number_range([cell.kernel for cell in sums], unit)] if num_wires else []
    trace = number_range([cell.trace for cell in sums], unit)
    return [_theory(report, sums, "", unit), trace, *wires]


def _at_least(known: Sequence[int], unit: int | None) -> str:
    """The known part of the traffic, if it is not all of it."""
    if not any(known):
        return said("common.not_recorded")
    return said("common.at_least", sizes=number_range(known, unit))


def _causes_table(report: Report) -> Table:
    """The derivation from each law to its bytes; then bytes without a law, and the wire."""
    first = report.wires[0].rank
    table = make_table(said("ledger.causes", rank=first), said("ledger.bytes"), "", left=1)
    table.columns[2].justify = "left"
    table.columns[2].no_wrap = False
    for law in report.systems:
        words = report.law
        if report.stage is None:
            ranks = name_ranks(list(law.ranks))
            words = said("ledger.formula", formula=law.formula, words=law.words, ranks=ranks)
        key = "ledger.law" if len(report.systems) == 1 else "ledger.law_of"
        name = said(key, system=term(law.system))
        table.add_row(name, format_exact(law.law_bytes), words)
        _add_causes(table, law.causes)
    of_laws = sum(len(law.causes) for law in report.systems)
    _add_causes(table, report.causes[of_laws:])
    measured = report.total("kernel", 0) if report.wire_by_call else report.wires[0].wire
    if measured is not None:
        table.add_row(
            said("ledger.the_wire"), format_exact(measured), said("ledger.by_kernel"), style="bold"
        )
    unexplained = report.unexplained_wire
    text = said("ledger.not_measured")
    if unexplained is not None:
        text = format_exact_bytes(unexplained)
    exact = format_exact_bytes(report.unexplained_trace)
    where = said("ledger.any_rank", trace=exact, wire=text)
    table.add_row(said("ledger.unexplained"), "", where)
    return table


def _add_causes(table: Table, causes: Sequence[CauseBytes]) -> None:
    for cause in causes:
        sign = "+" if cause.bytes > 0 else ""
        size = f"{sign}{format_exact(cause.bytes)}"
        table.add_row(f"  {term(cause.cause)}", size, cause.words, style=style_of(cause))


def _sources_table(report: Report) -> Table:
    table = make_table(*said.each("ledger.source_columns"), left=4)
    table.title = said("ledger.sources")
    for one in report.sources:
        table.add_row(
            one.source or said("ledger.unknown"),
            term(one.phase),
            said("ledger.call", purpose=term(one.purpose), op=term(one.op or "")),
            one.why,
            str(one.num_calls),
            format_exact(one.sent_bytes),
        )
    return table


def print_summary(console: Console, rows: Sequence[tuple[Report, str, str]]) -> None:
    """One line per run: its law, its traffic, its memory, its loss.

    Args:
        rows: the reports, with the losses of their runs and, in words, the memory of a rank for
            model states by theory.
    """
    columns = counter_columns([report for report, *_ in rows])
    in_psi = f"trace in {PSI}"
    kept = ["model states"] if any(memory for *_, memory in rows) else []
    table = make_table(
        "", "law", "theory", "trace", in_psi, "wire", *columns, *kept, "loss", "verdict", left=2
    )
    table.title = "bytes sent by rank 0 in a step"
    for report, losses, memory in rows:
        unit = report.num_parameters * report.element_bytes
        trace = report.total("trace", 0)
        table.add_row(
            STAGE_NAMES.get(report.stage if report.stage is not None else -1, ""),
            _law_words(report),
            number(report.total("theory", 0)),
            number(trace),
            number(trace, unit),
            number(report.total("kernel", 0)),
            *counter_cells(report, columns),
            *([memory] if kept else []),
            losses,
            mark_of(report.outcome),
        )
    print_table(console, table)
    first = rows[0][0]
    if first.num_parameters:
        memory = "; model states: what a rank keeps in memory, theory" if kept else ""
        console.print(
            f"N = {first.num_ranks} ranks, {PSI} = {first.num_parameters:,} parameters{memory}",
            style="dim",
        )


def _law_words(report: Report) -> str:
    if report.law_bytes is None:
        return ""
    return report.law_symbols if report.num_ranks > 1 else f"0{PSI}(N-1)/N"
