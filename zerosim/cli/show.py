"""`zerosim show`: the events of a trace in order, even of an incomplete one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from zerosim.base.config import choice
from zerosim.base.errors import ConfigError
from zerosim.base.language import term
from zerosim.cli.console import make_console, make_table, print_json, print_lines, print_rows
from zerosim.cli.options import AsJson, TraceFolder, open_run
from zerosim.cli.wording import said
from zerosim.record import RawRow, Trace, iterations, rank_files, raw_rows
from zerosim.schema.events import Event, Kind, Op, Phase
from zerosim.schema.manifest import Manifest, Source

_ALL = "all"
_LAST = "last"
_MOST_NAMES = 12
"""Number of entries listed in a message."""


def show(  # noqa: PLR0913 - an option is an argument
    folder: TraceFolder,
    *,
    rank: Annotated[str | None, typer.Option(help="A rank, or all; the first by default.")] = None,
    iteration: Annotated[
        str,
        typer.Option(help="An iteration, last, or all (with setup and teardown)."),
    ] = "last",
    phase: Annotated[str | None, typer.Option(help="forward, backward, update, ...")] = None,
    unit: Annotated[str | None, typer.Option(help="A unit's name; * matches anything.")] = None,
    hops: Annotated[bool, typer.Option("--hops", help="Show each message as well.")] = False,
    raw: Annotated[
        bool,
        typer.Option("--raw", help="Show each row of a rank's file, merged with its template."),
    ] = False,
    tour: Annotated[
        bool, typer.Option("--tour", help="Summarize an iteration in ten to twelve stops.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """List the events of a trace; an incomplete trace is shown up to its end."""
    if tour:
        if (rank, phase, unit, hops, raw) != (None, None, None, False, False):
            raise ConfigError("--tour covers all ranks: it combines with --iteration only")
        return _show_tour(folder, iteration, as_json=as_json)
    if raw:
        if (iteration, phase, unit, hops) != (_LAST, None, None, False):
            raise ConfigError("--raw shows whole files: it combines with --rank only")
        return _show_rows(folder, rank, as_json=as_json)
    trace = open_run(folder).trace
    first = str(trace.ranks[0].rank)
    chosen = _choose(trace, first if rank is None else rank, iteration, phase, unit)
    for warning in trace.warnings:
        typer.echo(f"note: {warning}", err=True)
    kinds = (Kind.COLLECTIVE, Kind.TRANSFER) if hops else (Kind.COLLECTIVE,)
    events = [event for event in _events(trace) if event.kind in kinds and chosen.takes(event)]
    evidence = {"is_predicted": True} if trace.manifest.is_predicted else {}
    if as_json:
        print_json([asdict(event) | evidence for event in events])
    else:
        _print(trace, events)
    return 0


def _show_tour(folder: Path, iteration: str, *, as_json: bool) -> int:
    """Describe an iteration as the tour of its replay does."""
    run = open_run(folder)
    stops = run.replay(iteration=_number(iteration, "iteration", (_LAST,))).tour
    for warning in run.trace.warnings:
        typer.echo(f"note: {warning}", err=True)
    if as_json:
        print_json([asdict(stop) for stop in stops])
        return 0
    lines = ((f"{n}. {stop.title}", f"    {stop.text}") for n, stop in enumerate(stops, 1))
    print_lines(make_console(), itertools.chain.from_iterable(lines))
    return 0


def _show_rows(folder: Path, rank: str | None, *, as_json: bool) -> int:
    """Show the raw rows of the files; a damaged file up to the damage."""
    files = rank_files(folder)
    wanted = next(iter(files)) if rank is None else _number(rank, "rank", (_ALL,))
    _require(folder, wanted, "rank", set(files))
    rows = (
        (one, row)
        for one, of_rank in files.items()
        if wanted in (None, one)
        for file in of_rank
        for row in raw_rows(file)
    )
    if as_json:
        print_json([{"rank": one, **asdict(row)} for one, row in rows])
    else:
        print_lines(make_console(), (_row_line(one, row) for one, row in rows))
    return 0


def _row_line(rank: int, row: RawRow) -> str:
    values = (
        f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in row.values.items()
    )
    return f"{rank}:{row.line} {row.name}: {', '.join(values)}"


@dataclass(frozen=True, slots=True)
class _Choice:
    """The events to show; None for all."""

    rank: int | None
    iteration: int | None
    phase: Phase | None
    unit: str | None

    def takes(self, event: Event) -> bool:
        return (
            self.rank in (None, event.rank)
            and self.iteration in (None, event.iteration)
            and self.phase in (None, event.phase)
            and (self.unit is None or fnmatchcase(event.unit, self.unit))
        )


def _choose(
    trace: Trace, rank: str, iteration: str, phase: str | None, unit: str | None
) -> _Choice:
    """Parse the options, and check that the trace has their values."""
    wanted = _number(rank, "rank", (_ALL,))
    step = _last_iteration(trace) if iteration == _LAST else None
    if step is None:
        step = _number(iteration, "iteration", (_LAST, _ALL))
        _require(trace.folder, step, "iteration", {event.iteration for event in _events(trace)})
    _require(trace.folder, wanted, "rank", {one.rank for one in trace.ranks})
    units = {event.unit for event in _events(trace) if event.unit}
    if unit is not None and not any(fnmatchcase(name, unit) for name in units):
        names = ", ".join(sorted(units)[:_MOST_NAMES]) + (
            ", ..." if len(units) > _MOST_NAMES else ""
        )
        raise ConfigError(
            f"unit {unit!r} matches nothing in {trace.folder}: "
            + (f"expected one of {names}; * matches anything" if units else "it has no units")
        )
    return _Choice(wanted, step, None if phase is None else choice(Phase, phase, "phase"), unit)


def _require(folder: Path, wanted: int | None, what: str, present: set[int]) -> None:
    if wanted is None or wanted in present:
        return
    if not present:
        raise ConfigError(f"{what} {wanted} is not in {folder}: nothing was recorded")
    numbers = sorted(present)
    known = ", ".join(map(str, numbers[:_MOST_NAMES])) + ", ..." * (len(numbers) > _MOST_NAMES)
    if len(numbers) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1:
        known = f"{numbers[0]} to {numbers[-1]}"
    raise ConfigError(f"{what} {wanted} is not in {folder}: expected one of {known}")


def _events(trace: Trace) -> Iterator[Event]:
    return (event for one in trace.ranks for event in one.events)


def _last_iteration(trace: Trace) -> int:
    """The last one that all ranks finished; for a run that ended early, its last one."""
    complete = iterations(trace)
    if trace.complete and complete:
        return complete[-1]
    return max((event.iteration for event in _events(trace)), default=0)


def _number(text: str, what: str, words: tuple[str, ...]) -> int | None:
    if text in words:
        return None
    try:
        return int(text)
    except ValueError:
        expected = " or ".join(", ".join(["a number", *words]).rsplit(", ", 1))
        raise ConfigError(f"{what} is {text!r}: expected {expected}") from None


def _print(trace: Trace, events: list[Event]) -> None:
    console = make_console()
    key = "show.columns_predicted" if trace.manifest.is_predicted else "show.columns"
    table = make_table(*said.each(key), left=5)
    table.columns[-1].justify = "left"
    print_rows(console, table, (_cells(event, trace.manifest) for event in events))
    total = sum(1 for _ in _events(trace))
    console.print()
    console.print(said("show.shown", shown=f"{len(events):,}", total=f"{total:,}"))


def _cells(event: Event, manifest: Manifest) -> tuple[str, ...]:
    return (
        str(event.rank),
        str(event.iteration),
        term(event.phase),
        event.unit,
        _what(event),
        said("common.not_recorded") if event.operator else f"{event.payload_bytes:,}",
        "" if event.sent_bytes is None else f"{event.sent_bytes:,}",
        f"{sum(delta.sent_bytes for delta in event.wire):,}" if event.wire else "",
        _milliseconds(event, manifest),
        event.source,
    )


def _what(event: Event) -> str:
    if event.kind is Kind.TRANSFER:
        peers = ", ".join(map(str, event.peers))
        key = "show.send" if event.op == "send" else "show.receive"
        return said(key, hop=event.hop, shard=event.shard, peers=peers)
    is_unknown = event.op is Op.UNKNOWN and event.operator
    return said(
        "show.call",
        op=event.operator if is_unknown else term(event.op or ""),
        algorithm=term(event.algorithm or ""),
        purpose=term(event.purpose or ""),
    )


def _milliseconds(event: Event, manifest: Manifest) -> str:
    if event.error:
        return said("show.failed")
    if event.end_ns is None:
        is_imported = manifest.source is Source.IMPORTED
        return said("common.not_recorded" if is_imported else "show.never_ended")
    num_decimals = 3 if manifest.is_predicted else 2
    return f"{(event.end_ns - (event.start_ns or event.issue_ns)) / 1e6:.{num_decimals}f}"
