"""Short rows as they are read: blocks of records, each a row or a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from zerosim.base.tiers import Tier
from zerosim.schema.shortrows import (
    BEGIN,
    CHANGE,
    CLOSE,
    KINDS,
    MARK,
    MEMORY,
    MOMENTS,
    PHASES,
    RECORD,
    SEALED_AFTER,
    SIZE,
)

Record = tuple[int, int, int, int, int, int, int, int]
"""A record, field by field."""
Changes = tuple[tuple[int, int], ...]
"""Numbers of places, with their bytes."""

SHORT = "short"
"""The name of a block of short rows, where a line has that of its row."""
_MOST_BYTES = 1 << 22
"""A block has at most this many: each of its rows may have many changes."""


def block_at(content: bytes, at: int) -> bytes:
    """The records from here on, up to a seal, a line or the end of what is complete."""
    kinds = content[at : at + _MOST_BYTES : SIZE]
    count = len(kinds) - len(kinds.lstrip(KINDS))
    return content[at : at + min(count, (len(content) - at) // SIZE) * SIZE]


def count_rows(block: bytes) -> int:
    """How many rows the records of a block are."""
    return len(block) // SIZE - block[::SIZE].count(CHANGE)


def check_block(block: bytes) -> None:
    """Check what a reader relies on besides the checksum.

    Raises:
        ValueError: a record is incomplete, or a block has too many rows.
    """
    if block[SIZE - 1 :: SIZE].strip(bytes([MARK])):
        raise ValueError("a short row without its mark")
    if count_rows(block) > 2 * SEALED_AFTER:
        raise ValueError(f"more than {2 * SEALED_AFTER} short rows without a checksum")


def without_torn(block: bytes) -> bytes:
    """A block that nothing confirms, without an incomplete row at its end."""
    records = list(RECORD.iter_unpack(block))
    while records and not records[-1][-1]:
        records.pop()
    last = next((n for n in reversed(range(len(records))) if records[n][0] != CHANGE), 0)
    is_sample = bool(records) and records[last][0] == MEMORY
    if is_sample and len(records) - last - 1 < records[last][5] >> 16:
        del records[last:]
    return block[: len(records) * SIZE]


def rows_of(block: bytes) -> Iterator[tuple[Record, Changes]]:
    """The rows of a block: each record that begins one, and the changes after it.

    Raises:
        ValueError: the records do not form rows.
    """
    records = RECORD.iter_unpack(block)
    for record in records:
        kind = record[0]
        if kind == MEMORY:
            yield record, _changes_of(record, records)
        elif kind != CHANGE:
            yield record, ()
        else:
            raise ValueError("a change of memory without its sample")


def _changes_of(record: Record, records: Iterator[Record]) -> Changes:
    _, _, _, number, _, what, _, _ = record
    if what & 255 >= len(PHASES) or what >> 8 & 255 >= len(MOMENTS):
        raise ValueError(f"memory sample {number} is at an unknown moment or phase")
    found = []
    for kind, _, place, *_, num_bytes, _ in islice(records, what >> 16):
        if kind == CHANGE:
            found.append((place, num_bytes))
    if len(found) < what >> 16:
        raise ValueError(f"memory sample {number} has {len(found)} of {what >> 16} changes")
    return tuple(found)


def plain_rows(
    block: bytes, places: Mapping[int, Mapping[str, Any]], issued: dict[int, int]
) -> Iterator[dict[str, Any]]:
    """The rows of a block with the fields that their lines of text would have.

    Args:
        places: the fields of the rows `place` so far, by number.
        issued: the time of issue of each open event, which is kept up to date.
    """
    for (kind, micro_step, a, b, c, d, value, _), changes in rows_of(block):
        at = {"iteration": c - 1, **({"micro_step": micro_step} if micro_step else {})}
        if kind == BEGIN:
            issued[b] = value
            after = {"sequence": d - 1} if d else {}
            yield {"row": "begin", "template": a, "id": b, **at, **after, "issue_ns": value}
        elif kind == CLOSE:
            yield {"row": "close", "id": a, "start_ns": issued.pop(a, 0) + b, "end_ns": value}
        else:
            yield {
                "row": "memory",
                "number": b,
                "event": a - 1 if a else None,
                "moment": MOMENTS[d >> 8 & 255],
                "iteration": c - 1,
                "micro_step": micro_step,
                "phase": PHASES[d & 255],
                "time_ns": value,
                "changes": [
                    {"tier": Tier.DEVICE, **places.get(place, {}), "bytes": num_bytes}
                    for place, num_bytes in changes
                ],
            }
