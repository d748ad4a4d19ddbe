"""The part of Verify about places: copies between tiers, messages by link, interfaces."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from zerosim.base.language import term
from zerosim.base.quantities import format_exact
from zerosim.base.tiers import Link
from zerosim.dashboards.texts import SITE
from zerosim.verify import Report

NOT_MEASURED = "verify.not_measured"
NO_LAW = "verify.no_law"
LINK_TITLES = {
    Link.NODE: "verify.within_a_node",
    Link.NETWORK: "verify.between_nodes",
    Link.BUS: "verify.over_the_bus",
    Link.STORAGE: "verify.to_and_from_the_disk",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRow:
    """A line of a table, for one rank.

    Attributes:
        where: a link, on its first line.
        what: a purpose, with the tiers of a copy.
        counted: the kernel's count.
        is_off: whether theory, trace and counter differ by more than named causes.
        is_total: the sum over a link.
    """

    where: str
    phase: str
    what: str
    calls: str
    theory: str
    trace: str
    counted: str
    is_off: bool = False
    is_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesSection:
    """The page's data on tiers and nodes; empty if everything is on one device and one node.

    Attributes:
        copies: one line per reason, and the sum of each link.
        links: the same for messages between ranks.
        interfaces: each node's network interface over the whole run, and its composition.
        framing: overhead of files besides their contents, in the lines shown.
    """

    copies: tuple[PlaceRow, ...] = ()
    links: tuple[PlaceRow, ...] = ()
    interfaces: tuple[PlaceRow, ...] = ()
    framing: str = ""


def places_of(report: Report, place: int) -> PlacesSection:
    """The copies of one rank, and its traffic by link.

    Args:
        place: of the rank among those of the report.
    """
    framing = sum(row.sent[place].framing or 0 for row in report.copies)
    return PlacesSection(
        copies=tuple(_copies(report, place)),
        links=tuple(_links(report, place)),
        interfaces=tuple(_interfaces(report)),
        framing=format_exact(framing) if framing else "",
    )


def _copies(report: Report, place: int) -> list[PlaceRow]:
    rows: list[PlaceRow] = []
    for link in (Link.BUS, Link.STORAGE):
        own = [row for row in report.copies if row.link is link]
        for number, row in enumerate(own):
            cell = row.sent[place]
            rows.append(
                PlaceRow(
                    where=SITE(LINK_TITLES[link]) if number == 0 else "",
                    phase=row.phase.value,
                    what=SITE(
                        "verify.to",
                        purpose=term(row.purpose),
                        origin=term(str(row.origin)),
                        target=term(str(row.target)),
                    ),
                    calls=f"{format_exact(row.calls[place])} ×",  # noqa: RUF001 - times
                    theory=_number(cell.theory, NO_LAW),
                    trace=format_exact(cell.trace),
                    counted=_number(cell.kernel),
                    is_off=bool(cell.unexplained_trace or cell.unexplained_kernel),
                )
            )
        if len(own) > 1:
            theory, trace, kernel = (
                report.total(name, place, link) for name in ("theory", "trace", "kernel")
            )
            rows.append(_total(_number(theory, NO_LAW), _number(trace), _number(kernel)))
    return rows


def _links(report: Report, place: int) -> list[PlaceRow]:
    rows: list[PlaceRow] = []
    for link in (Link.NODE, Link.NETWORK):
        own = [row for row in report.links if row.link is link]
        sums: dict[str, int | None] = defaultdict(int)
        for number, row in enumerate(own):
            cell = row.sent[place]
            for name in ("theory", "trace", "kernel"):
                before, value = sums[name], getattr(cell, name)
                sums[name] = None if before is None or value is None else before + value
            rows.append(
                PlaceRow(
                    where=SITE(LINK_TITLES[link]) if number == 0 else "",
                    phase=row.phase.value,
                    what=row.purpose.value,
                    calls=str(row.op),
                    theory=_number(cell.theory, NO_LAW),
                    trace=format_exact(cell.trace),
                    counted=_number(cell.kernel),
                    is_off=bool(cell.unexplained_trace or cell.unexplained_kernel),
                )
            )
        if len(own) > 1:
            rows.append(_total(*(_number(sums[name]) for name in ("theory", "trace", "kernel"))))
    return rows


def _interfaces(report: Report) -> list[PlaceRow]:
    return [
        PlaceRow(
            where=SITE("verify.node_2", node=one.node),
            phase="",
            what=one.name,
            calls=format_exact(one.others),
            theory=format_exact(one.sockets),
            trace=format_exact(one.headers),
            counted=format_exact(one.counted),
            is_off=bool(one.unexplained),
        )
        for one in report.interfaces
    ]


def _total(theory: str, trace: str, counted: str) -> PlaceRow:
    return PlaceRow(
        where="", phase="", what=SITE("verify.together"), calls="", theory=theory, trace=trace,
        counted=counted, is_total=True,
    )  # fmt: skip


def _number(value: int | None, otherwise: str = NOT_MEASURED) -> str:
    return otherwise if value is None else format_exact(value)
