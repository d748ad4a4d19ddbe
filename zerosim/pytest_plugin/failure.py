"""The message of a failed assert: the calls, the three ledgers, and the folder of the trace."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path

from zerosim.base.errors import ZerosimError, first_line
from zerosim.base.quantities import format_exact
from zerosim.record import RankTrace
from zerosim.schema.events import WHOLE, Event
from zerosim.view.reading import Run
from zerosim.view.reading.selection import purpose_of

_MOST_CALLS = 12
"""Kinds of calls beyond this number are counted, not listed."""


def place_words(rank: int, iteration: int) -> str:
    """A rank in an iteration."""
    return f"rank {rank}" if iteration == WHOLE else f"rank {rank} in iteration {iteration}"


def describe_calls(calls: Iterable[Event], indent: str = "  ") -> list[str]:
    """Calls, one line per set of equal ones: number, operation, purpose, and source line."""
    alike = Counter(
        (
            each.phase.value,
            purpose_of(each).value,
            str(each.op),
            each.payload_bytes,
            each.dtype,
            each.source,
        )
        for each in calls
    )
    lines = []
    for (phase, purpose, op, size, dtype, source), count in list(alike.items())[:_MOST_CALLS]:
        buffer = f" of {size:,} B {dtype}".rstrip() if size else ""
        at = f" at {source}" if source else ""
        lines.append(f"{indent}{count} x {op}{buffer} in {phase}, {purpose}{at}")
    if len(alike) > _MOST_CALLS:
        rest = sum(list(alike.values())[_MOST_CALLS:])
        lines.append(f"{indent}... and {rest} more")
    return lines


def ledgers(run: Run, rank: RankTrace, iteration: int) -> list[str]:
    """Bytes sent by one rank, by reason: theory, trace and wire side by side, with causes."""
    try:
        verified = run.verify(iteration=None if iteration == WHOLE else iteration)
    except ZerosimError as error:
        return [f"  the three ledgers cannot be shown: {first_line(error)}"]
    report, ledger = verified.report, verified.ledger(rank.rank)
    table = [("phase", "purpose: op", "calls", "theory", "trace", "wire")]
    for row in ledger:
        theory = "no law" if row["theory_bytes"] is None else f"{row['theory_bytes']:,}"
        wire = "" if row["wire_bytes"] is None else f"{row['wire_bytes']:,}"
        reason = f"{row['purpose']}: {row['op']}"
        traced = f"{row['trace_bytes']:,}"
        table.append((row["phase"], reason, str(row["calls"]), theory, traced, wire))
    planned = ledger.total("theory_bytes")
    theory = "no law" if planned is None or not report.systems else f"{planned:,}"
    traced = f"{ledger.total('trace_bytes'):,}"
    table.append(("total", "", "", theory, traced, _wire(run, rank, iteration)))
    place = place_words(rank.rank, iteration)
    return [
        f"  bytes sent by {place}, theory and trace count payload only; the wire includes framing",
        *_table(table),
        "",
        f"  {report.headline}",
        *(f"    {_signed(each.bytes)} B {each.cause}: {each.words}" for each in report.causes),
        *(f"  note: {note}" for note in report.notes),
    ]


def where(folder: Path) -> list[str]:
    """The trace's folder, and the commands for it."""
    return [
        "",
        "  every call in the trace:",
        f"  zerosim show {shlex.quote(str(folder))}",
    ]


def _wire(run: Run, rank: RankTrace, iteration: int) -> str:
    """The kernel's total count, as concurrent calls have no wire count of their own."""
    of_step = None if iteration == WHOLE else iteration
    table = run.wire(rank=rank.rank, iteration=of_step)
    return "not measured" if table.notes else f"{table.sent_bytes or 0:,}"


def _signed(value: Fraction) -> str:
    return f"{'+' if value > 0 else ''}{format_exact(value)}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligned columns, the first two to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(cells).rstrip())
    return lines
