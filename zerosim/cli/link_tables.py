"""Copies between tiers, traffic over links and through interfaces, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from zerosim.base.language import term
from zerosim.base.quantities import PSI, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.cli.console import make_table
from zerosim.cli.numbers import not_measured, number, number_range
from zerosim.cli.wording import said
from zerosim.verify import LedgerRow, Report
from zerosim.verify.report import total

_KERNEL = (Link.BUS, Link.STORAGE)
"""The counters of copies count these."""


def place_tables(report: Report) -> list[Table]:
    """Tables of copies, links and interfaces; empty if there are none."""
    found = []
    if report.copies:
        found.append(_copies_table(report))
    if report.links:
        found.append(_links_table(report))
    if report.interfaces:
        found.append(_interfaces_table(report))
    return found


def _copies_table(report: Report) -> Table:
    columns = said.each("places.copies_columns")
    table = make_table(*columns, left=3, title=said("places.copies"))
    before = ""
    for row in report.copies:
        phase = "" if row.phase == before else term(row.phase)
        before = row.phase.value
        table.add_row(
            phase,
            term(row.purpose),
            said("places.way", origin=term(row.origin or ""), target=term(row.target or "")),
            number_range(row.calls),
            said("ledger.no_law")
            if row.has_no_law
            else number_range([cell.theory for cell in row.sent]),
            number_range([cell.trace for cell in row.sent]),
            number_range([cell.kernel for cell in row.sent]),
        )
    table.add_section()
    ranks = range(len(report.wires))
    for link in counters(report):
        totals = [
            number_range([report.total(ledger, rank, link) for rank in ranks])
            for ledger in ("theory", "trace", "kernel")
        ]
        if any(row.has_no_law for row in report.copies if row.link is link):
            totals[0] = said("ledger.no_law")
        over = said(f"places.over_{link}")
        table.add_row(said("common.total"), over, "", "", *totals, style="bold")
    unexplained = report.unexplained_disk
    if Link.STORAGE in counters(report):
        added = number_range([report.total("framing", rank, Link.STORAGE) for rank in ranks])
        table.add_row("", said("places.framing"), "", "", "", "", added)
        text = not_measured() if unexplained is None else format_exact_bytes(unexplained)
        table.add_row("", said("places.unexplained"), "", "", "", "", text)
    return table


def _links_table(report: Report) -> Table:
    title = said("places.links", nodes=report.num_nodes)
    table = make_table(*said.each("places.links_columns"), left=2, title=title)
    for link in (one for one in Link if any(row.link is one for row in report.links)):
        rows = [row for row in report.links if row.link is link]
        before = ""
        for row in rows:
            name = "" if link == before else term(link)
            before = link.value
            call = {"purpose": term(row.purpose), "op": term(row.op or "")}
            what = said("places.call", phase=term(row.phase), **call)
            table.add_row(name, what, *_ranges([row]))
        table.add_row("", said("common.total"), *_ranges(rows), style="bold")
        unit = report.num_parameters * report.element_bytes
        table.add_row("", said("places.of_all", psi=PSI), *_sums(rows, unit))
    return table


def _ranges(rows: Sequence[LedgerRow]) -> list[str]:
    cells = list(zip(*(row.sent for row in rows), strict=True))  # of each rank that was recorded
    return [
        number_range([total(mine, ledger) for mine in cells])
        for ledger in ("theory", "trace", "kernel")
    ]


def _sums(rows: Sequence[LedgerRow], unit: int) -> list[str]:
    cells = [cell for row in rows for cell in row.sent]
    return [number(total(cells, ledger), unit) for ledger in ("theory", "trace", "kernel")]


def _interfaces_table(report: Report) -> Table:
    columns = said.each("places.interfaces_columns")
    table = make_table(*columns, left=2, title=said("places.interfaces"))
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
    """The links between tiers with actual or planned copies."""
    return [link for link in _KERNEL if any(row.link is link for row in report.copies)]


def counter_columns(reports: Sequence[Report]) -> list[str]:
    """Names of the counters besides the sockets in any of these runs: one column each."""
    names = [
        said(f"places.{link}") for link in _KERNEL if any(link in counters(one) for one in reports)
    ]
    if any(one.interfaces for one in reports):
        names.append(said("places.interface"))
    return names


def counter_cells(report: Report, columns: Sequence[str]) -> list[str]:
    """The counts of copies on rank 0 in the step, and of interfaces of node 0 in the run."""
    by_name = {said(f"places.{link}"): link for link in counters(report)}
    found = []
    for name in columns:
        if name == said("places.interface") and report.interfaces:
            first = report.interfaces[0].node
            counted = sum(row.counted for row in report.interfaces if row.node == first)
            found.append(number(counted))
        elif name in by_name:
            found.append(number(report.total("kernel", 0, by_name[name])))
        else:
            found.append("")
    return found
