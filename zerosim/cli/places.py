"""What was copied between tiers, sent over links and through interfaces, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from zerosim.cli.console import make_table
from zerosim.cli.numbers import NOT_MEASURED, number, number_range
from zerosim.quantities import PSI, format_exact_bytes
from zerosim.tiers import Link
from zerosim.verify import LedgerRow, Report
from zerosim.verify.report import total

_KERNEL = {Link.BUS: "bus", Link.STORAGE: "disk"}
"""The counters of copies, by what they count."""


def place_tables(report: Report) -> list[Table]:
    """Tables of copies, links and interfaces; none where there is nothing of the kind."""
    found = []
    if report.copies:
        found.append(_copies_table(report))
    if report.links:
        found.append(_links_table(report))
    if report.interfaces:
        found.append(_interfaces_table(report))
    return found


def _copies_table(report: Report) -> Table:
    title = "bytes copied by each rank between its tiers; theory and trace count content only"
    table = make_table(
        "phase", "purpose", "from → to", "copies", "theory", "trace", "kernel", left=3, title=title
    )
    before = ""
    for row in report.copies:
        phase = "" if row.phase == before else row.phase.value
        before = row.phase.value
        table.add_row(
            phase,
            row.purpose.value,
            f"{row.origin} → {row.target}",
            number_range(row.calls),
            "no law" if row.has_no_law else number_range([cell.theory for cell in row.sent]),
            number_range([cell.trace for cell in row.sent]),
            number_range([cell.kernel for cell in row.sent]),
        )
    table.add_section()
    ranks = range(report.num_ranks)
    for link in counters(report):
        totals = [
            number_range([report.total(ledger, rank, link) for rank in ranks])
            for ledger in ("theory", "trace", "kernel")
        ]
        if any(row.has_no_law for row in report.copies if row.link is link):
            totals[0] = "no law"
        table.add_row("total", f"over the {_KERNEL[link]}", "", "", *totals, style="bold")
    unexplained = report.unexplained_disk
    if Link.STORAGE in counters(report):
        added = number_range([report.total("framing", rank, Link.STORAGE) for rank in ranks])
        table.add_row("", "of which headers, checksums, whole pages", "", "", "", "", added)
        text = NOT_MEASURED if unexplained is None else format_exact_bytes(unexplained)
        table.add_row("", "unexplained on the disk, any rank", "", "", "", "", text)
    return table


def _links_table(report: Report) -> Table:
    title = f"bytes sent by each rank by link, {report.num_nodes} nodes"
    table = make_table("link", "purpose", "theory", "trace", "wire", left=2, title=title)
    for link in (one for one in Link if any(row.link is one for row in report.links)):
        rows = [row for row in report.links if row.link is link]
        before = ""
        for row in rows:
            name = "" if link == before else link.value
            before = link.value
            what = f"{row.purpose}: {row.op} ({row.phase})"
            table.add_row(name, what, *_ranges([row], report.num_ranks))
        table.add_row("", "total", *_ranges(rows, report.num_ranks), style="bold")
        unit = report.num_parameters * report.element_bytes
        table.add_row("", f"of all ranks, in {PSI}", *_sums(rows, unit))
    return table


def _ranges(rows: Sequence[LedgerRow], num_ranks: int) -> list[str]:
    return [
        number_range([total((row.sent[rank] for row in rows), ledger) for rank in range(num_ranks)])
        for ledger in ("theory", "trace", "kernel")
    ]


def _sums(rows: Sequence[LedgerRow], unit: int) -> list[str]:
    cells = [cell for row in rows for cell in row.sent]
    return [number(total(cells, ledger), unit) for ledger in ("theory", "trace", "kernel")]


def _interfaces_table(report: Report) -> Table:
    title = "bytes that left each node in the whole run, by the counters of its interfaces"
    columns = ("node", "interface", "sockets", "others", "headers", "counted", "unexplained")
    table = make_table(*columns, left=2, title=title)
    for row in report.interfaces:
        table.add_row(
            str(row.node),
            row.name,
            number(row.sockets),
            number(row.others),
            number(row.headers),
            number(row.counted),
            number(row.unexplained),
        )
    return table


def counters(report: Report) -> list[Link]:
    """The links between tiers over which something was or ought to be copied."""
    return [link for link in _KERNEL if any(row.link is link for row in report.copies)]


def counter_columns(reports: Sequence[Report]) -> list[str]:
    """Names of the counters beside the sockets that any of these runs has: one column each."""
    names = [_KERNEL[link] for link in _KERNEL if any(link in counters(one) for one in reports)]
    return [*names, *(["interface"] if any(one.interfaces for one in reports) else [])]


def counter_cells(report: Report, columns: Sequence[str]) -> list[str]:
    """What they counted: copies of rank 0 in the step, interfaces of node 0 in the run."""
    by_name = {_KERNEL[link]: link for link in counters(report)}
    found = []
    for name in columns:
        if name == "interface" and report.interfaces:
            first = report.interfaces[0].node
            counted = sum(row.counted for row in report.interfaces if row.node == first)
            found.append(number(counted))
        elif name in by_name:
            found.append(number(report.total("kernel", 0, by_name[name])))
        else:
            found.append("")
    return found
