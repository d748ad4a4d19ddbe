"""`zerosim show`: the collectives of a trace in order, whole or cut short."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer

from zerosim.cli.console import make_console, make_table, print_json
from zerosim.config import choice
from zerosim.errors import ConfigError
from zerosim.events import Event, Kind, Phase
from zerosim.record import Trace, iterations, load

_ALL = "all"
_LAST = "last"


def show(
    folder: Annotated[Path, typer.Argument(help="A trace's folder.")],
    *,
    rank: Annotated[str, typer.Option(help="A rank, or all.")] = "0",
    iteration: Annotated[
        str, typer.Option(help="An iteration, last, or all (with set-up and whatever came after).")
    ] = "last",
    phase: Annotated[str | None, typer.Option(help="forward, backward, update, ...")] = None,
    unit: Annotated[str | None, typer.Option(help="A unit's name; * stands for anything.")] = None,
    hops: Annotated[bool, typer.Option("--hops", help="Show each message as well.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """List what a trace recorded; a trace that was cut short is shown up to its end."""
    trace = load(folder)
    for warning in trace.warnings:
        typer.echo(f"note: {warning}", err=True)
    chosen = list(_chosen(trace, rank, iteration, phase, unit, hops=hops))
    if as_json:
        print_json([asdict(event) for event in chosen])
    else:
        _print(trace, chosen)
    return 0


def _chosen(
    trace: Trace, rank: str, iteration: str, phase: str | None, unit: str | None, *, hops: bool
) -> Iterator[Event]:
    wanted_rank = _number(rank, "rank", (_ALL,))
    wanted_iteration = _number(iteration, "iteration", (_ALL, _LAST))
    if iteration == _LAST:
        wanted_iteration = _last_iteration(trace)
    wanted_phase = choice(Phase, phase, "phase") if phase is not None else None
    known = [one.rank for one in trace.ranks]
    if wanted_rank is not None and wanted_rank not in known:
        names = ", ".join(map(str, known))
        raise ConfigError(f"rank {wanted_rank} is not in {trace.folder}: expected one of {names}")
    kinds = (Kind.COLLECTIVE, Kind.TRANSFER) if hops else (Kind.COLLECTIVE,)
    for one in trace.ranks:
        for event in one.events:
            if (
                event.kind in kinds
                and wanted_rank in (None, event.rank)
                and wanted_iteration in (None, event.iteration)
                and wanted_phase in (None, event.phase)
                and (unit is None or fnmatchcase(event.unit, unit))
            ):
                yield event


def _last_iteration(trace: Trace) -> int:
    """The last one that all ranks finished; of a run that ended early, the one it ended in."""
    complete = iterations(trace)
    if trace.complete and complete:
        return complete[-1]
    return max((event.iteration for one in trace.ranks for event in one.events), default=0)


def _number(text: str, what: str, words: tuple[str, ...]) -> int | None:
    if text in words:
        return None
    try:
        return int(text)
    except ValueError:
        expected = ", ".join(words)
        raise ConfigError(f"{what} is {text!r}: expected a number or {expected}") from None


def _print(trace: Trace, events: list[Event]) -> None:
    console = make_console()
    table = make_table(
        "rank", "it", "phase", "unit", "what", "payload B", "sent B", "wire B", "ms", "called from",
        left=5,
    )  # fmt: skip
    table.columns[-1].justify = "left"
    for event in events:
        table.add_row(
            str(event.rank),
            str(event.iteration),
            event.phase.value,
            event.unit,
            _what(event),
            f"{event.payload_bytes:,}",
            "" if event.sent_bytes is None else f"{event.sent_bytes:,}",
            f"{sum(delta.sent_bytes for delta in event.wire):,}" if event.wire else "",
            _milliseconds(event),
            event.source,
        )
    console.print(table)
    console.print(f"{len(events)} of {sum(len(one.events) for one in trace.ranks)} events")


def _what(event: Event) -> str:
    if event.kind is Kind.TRANSFER:
        peers = ", ".join(map(str, event.peers))
        direction = "to" if event.op == "send" else "from"
        return f"    hop {event.hop}: shard {event.shard} {direction} rank {peers}"
    return f"{event.op} ({event.algorithm}): {event.purpose}"


def _milliseconds(event: Event) -> str:
    if event.error:
        return "failed"
    if event.end_ns is None:
        return "never ended"
    return f"{(event.end_ns - (event.start_ns or event.issue_ns)) / 1e6:.2f}"
