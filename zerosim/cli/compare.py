"""`zerosim compare`: two to four traces side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zerosim.analysis import TimeCause
from zerosim.base.language import listed, term
from zerosim.base.quantities import PSI, format_bytes, format_decimal
from zerosim.base.tiers import Link
from zerosim.cli.console import make_console, make_table, print_json, print_table
from zerosim.cli.options import AsJson, open_run
from zerosim.cli.wording import said
from zerosim.schema.events import STEP_PHASES, WHOLE, Phase
from zerosim.schema.memory import Role
from zerosim.view.reading.comparison import FEWEST, MOST, Comparison
from zerosim.view.reading.differences import notes, title_of
from zerosim.view.reading.side import Side, Times

_CAUSES = (
    TimeCause.COMPUTE,
    TimeCause.COMMUNICATION,
    TimeCause.SCHEDULING,
    TimeCause.OTHER,
)
_BAR = 40
"""Characters of the longest bar."""
_SHORT_NS = 10**6
"""A shorter time has more decimals."""
_PHASES = (*STEP_PHASES, Phase.OUTSIDE)
Row = tuple[str, str, Callable[[Side], str]]
"""The title of a group, that of a row, and its value for a side."""


def compare_traces(
    folders: Annotated[
        list[Path], typer.Argument(help=f"{FEWEST} to {MOST} trace folders, in order.")
    ],
    *,
    is_brief: Annotated[
        bool,
        typer.Option("--brief", help="Print only the summary and a bar of memory for each trace."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Compare traces: traffic, memory and time, by phase and unit.

    If a trace ends early, the comparison covers the iterations that all traces finished.
    """
    first, *others = map(open_run, folders)
    found = first.compare(*others)
    if as_json:
        print_json(found.to_dict())
    elif is_brief:
        _print_bars(make_console(), found)
    else:
        _print(make_console(), found)
    return 0


def _print_bars(console: Console, found: Comparison) -> None:
    """Their totals, and the memory at each peak beside the traffic."""
    console.print(Text(found.headline, style="bold"))
    peaks = [0 if side.held is None else side.held.highest_bytes for side in found.sides]
    table = make_table("", "", said("compare.holds"), said("compare.sends"), left=2)
    for side, peak in zip(found.sides, peaks, strict=True):
        bar = "█" * round(_BAR * peak / max(1, *peaks))
        held = format_bytes(peak) if peak else ""
        in_psi = _in_psi(side)
        table.add_row(side.name, bar, held, f"{in_psi} {PSI}" if in_psi else "")
    print_table(console, table)


def _print(console: Console, found: Comparison) -> None:
    sides = found.sides
    console.print(Text(found.headline, style="bold"))
    for side in sides:
        words = said(
            "compare.side_predicted" if side.is_predicted else "compare.side",
            name=side.name,
            title=title_of(side),
            folder=side.folder,
        )
        console.print(Text(f"  {words}", style="dim"))
    for note in notes(sides):
        console.print(said("common.note", note=note), style="yellow")
    console.print()
    of_steps = all(side.iteration != WHOLE for side in sides)
    what = said("compare.step" if of_steps else "compare.run")
    _table(console, sides, what, _whole_rows(sides))
    _table(console, sides, said("compare.units"), _unit_rows(sides))
    _table(console, sides, said("compare.roles"), _role_rows())
    _table(console, sides, _times_title(sides), _time_rows())
    for line in found.differences:
        console.print(f"- {line}")


def _table(console: Console, sides: Sequence[Side], title: str, rows: Sequence[Row]) -> None:
    shown = [(group, name, [cell(side) for side in sides]) for group, name, cell in rows]
    shown = [row for row in shown if any(row[2])]
    if not shown:
        return
    table = make_table("", "", *(side.name for side in sides), left=2, title=title)
    before, strong = "", (said("compare.all"), said("compare.the_peak"))
    for group, name, cells in shown:
        style = "bold" if name in strong else ""
        table.add_row("" if group == before else group, name, *cells, style=style)
        before = group
    print_table(console, table)
    console.print()


def _whole_rows(sides: Sequence[Side]) -> list[Row]:
    traffic, memory, time = (said(f"compare.{one}") for one in ("traffic", "memory", "time"))
    law = said("compare.law")
    return [
        (traffic, law, lambda side: side.traffic_law),
        (
            traffic,
            said("compare.sent"),
            lambda side: _bytes(side.total_bytes) if side.sent_bytes else "",
        ),
        (traffic, said("compare.in_psi", psi=PSI), _in_psi),
        (traffic, said("compare.wire"), lambda side: _bytes(side.wire_bytes)),
        *_link_rows(sides),
        (memory, law, lambda side: side.states_law),
        (
            memory,
            said("compare.states"),
            lambda side: _bytes(side.held.states_bytes) if side.held else "",
        ),
        (memory, said("compare.peak"), _peak),
        (memory, said("compare.of", name=sides[0].name), partial(_share_of_peak, sides[0])),
        (time, said("compare.took"), partial(_time, lambda times: _ms(times.duration_ns))),
        *((time, said(f"compare.causes.{one}"), partial(_cause, one)) for one in _CAUSES),
        (time, said("compare.is"), _evidence),
        (
            time,
            said("compare.hidden_share"),
            partial(_time, lambda times: _percent(times.overlap)),
        ),
        (said("compare.loss"), "", lambda side: "" if side.loss is None else f"{side.loss:.4f}"),
    ]


def _link_rows(sides: Sequence[Side]) -> list[Row]:
    """Bytes by link class, if some run moves any but within one node."""
    met = {link for side in sides for link in side.link_bytes}
    if met <= {Link.NODE}:
        return []
    return [
        (said("compare.by_link"), said(f"compare.links.{link}"), partial(_link_cell, link))
        for link in Link
        if link in met
    ]


def _link_cell(link: Link, side: Side) -> str:
    return _bytes(side.link_bytes.get(link, 0) if side.link_bytes else None)


def _unit_rows(sides: Sequence[Side]) -> list[Row]:
    known = [unit for side in sides for unit in side.units]
    met = [unit for side in sides for _, unit in side.unit_bytes if unit]
    order = dict.fromkeys([*known, *met])
    rows: list[Row] = []
    for phase in Phase:
        units = {unit for side in sides for other, unit in side.unit_bytes if other is phase}
        rows += [
            (term(phase), unit or said("compare.no_unit"), partial(_unit_cell, (phase, unit)))
            for unit in [*order, ""]
            if unit in units
        ]
        if units:
            rows.append((term(phase), said("compare.all"), partial(_phase_cell, phase)))
    return rows


def _unit_cell(place: tuple[Phase, str], side: Side) -> str:
    return _bytes(side.unit_bytes.get(place))


def _phase_cell(phase: Phase, side: Side) -> str:
    return _bytes(sum(sent for (other, _), sent in side.unit_bytes.items() if other is phase))


def _role_rows() -> list[Row]:
    return [
        *(("", term(role), partial(_role, role)) for role in Role),
        ("", said("compare.the_peak"), _peak),
        *(
            (said("compare.peak_within"), term(phase), partial(_phase_peak, phase))
            for phase in _PHASES
        ),
    ]


def _role(role: Role, side: Side) -> str:
    return _bytes(side.held.roles.get(role) or None) if side.held else ""


def _peak(side: Side) -> str:
    return _bytes(side.held.highest_bytes) if side.held else ""


def _phase_peak(phase: Phase, side: Side) -> str:
    return _bytes(side.held.peak_bytes.get(phase)) if side.held else ""


def _time_rows() -> list[Row]:
    return [
        (term(phase), said(f"compare.{name}"), partial(_phase_time, phase, name))
        for phase in _PHASES
        for name in ("wall", "exposed", "waiting", "hidden")
    ]


def _phase_time(phase: Phase, name: str, side: Side) -> str:
    times = {} if side.times is None else getattr(side.times, f"{name}_ns")
    return _ms(times[phase]) if phase in times else ""


def _time(cell: Callable[[Times], str], side: Side) -> str:
    return "" if side.times is None else cell(side.times)


def _cause(cause: TimeCause, side: Side) -> str:
    known = {} if side.times is None else side.times.by_cause_ns
    return _ms(known[cause.value]) if cause.value in known else ""


def _evidence(side: Side) -> str:
    return said("compare.predicted") if side.is_predicted and side.times is not None else ""


def _times_title(sides: Sequence[Side]) -> str:
    """The kind of the times, and the sides whose times are predicted."""
    predicted = [side.name for side in sides if side.is_predicted]
    if len(predicted) == len(sides):
        return said("compare.times_predicted")
    return said("compare.times_of" if predicted else "compare.times", names=listed(predicted))


def _in_psi(side: Side) -> str:
    unit = side.num_parameters * side.element_bytes
    if not side.sent_bytes or not unit:
        return ""
    return format_decimal(Fraction(side.total_bytes, unit), 3)


def _share_of_peak(first: Side, side: Side) -> str:
    if side.held is None or first.held is None or not first.held.highest_bytes:
        return ""
    return f"{100 * side.held.highest_bytes / first.held.highest_bytes:.1f} %"


def _bytes(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:,.1f}" if ns >= _SHORT_NS else f"{ns / 1e6:.3f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"
