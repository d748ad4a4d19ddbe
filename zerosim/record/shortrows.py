"""Short rows as they are read: blocks of records, each a row or a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any

from zerosim.base.tiers import Tier
from zerosim.record.eventrows import OccurrenceRow, TransferRow
from zerosim.schema.events import Op
from zerosim.schema.rows import ROW_TYPES
from zerosim.schema.shortrows import (
    BEGIN,
    CLOSE,
    HAPPENED,
    KINDS,
    MARK,
    MEMORY,
    MOMENTS,
    MORE,
    PHASES,
    RECORD,
    SEALED_AFTER,
    SIZE,
    TRANSFER,
)

Record = tuple[int, int, int, int, int, int, int, int]
"""A record, field by field."""
SHORT = "short"
"""The name of a block of short rows, in place of a line's row name."""
_IN_TWO = frozenset({HAPPENED, TRANSFER})
"""Kinds of rows with a second record."""
_LEFT_OUT = {"micro_step": 0}
"""Values that a line leaves out, besides None."""
_BYTES_AT_ONCE = 2 * SEALED_AFTER * SIZE
"""Larger than most blocks; a row of memory may have thousands of changes."""


def block_at(content: bytes, at: int) -> bytes:
    """The next records, up to a seal, a line, the end of what is complete, or a limit."""
    kinds = content[at : at + _BYTES_AT_ONCE : SIZE]
    count = len(kinds) - len(kinds.lstrip(KINDS))
    return content[at : at + min(count, (len(content) - at) // SIZE) * SIZE]


def count_rows(block: bytes) -> int:
    """The number of rows that the records of a block form."""
    return len(block) // SIZE - block[::SIZE].count(MORE)


def check_block(block: bytes) -> None:
    """Check what a reader relies on in addition to the checksum.

    Raises:
        ValueError: a record is incomplete, or a block has too many rows.
    """
    if block[SIZE - 1 :: SIZE].strip(bytes([MARK])):
        raise ValueError("a short row without its mark")
    if count_rows(block) > 2 * SEALED_AFTER:
        raise ValueError(f"more than {2 * SEALED_AFTER} short rows without a checksum")


def without_torn(block: bytes) -> bytes:
    """A block that no checksum confirms, without an incomplete row at its end."""
    records = list(RECORD.iter_unpack(block))
    while records and not records[-1][-1]:
        records.pop()
    last = next((n for n in reversed(range(len(records))) if records[n][0] != MORE), 0)
    if records and len(records) - last - 1 < _num_more(records[last]):
        del records[last:]
    return block[: len(records) * SIZE]


def _num_more(record: Record) -> int:
    """How many records follow the first of a row."""
    kind = record[0]
    return record[5] >> 16 if kind == MEMORY else int(kind in _IN_TWO)


def rows_of(block: bytes) -> Iterator[tuple[str, Any]]:
    """The rows of a block, each with its name.

    An event or a message is a row of `eventrows`, a close its id, the time from issue to start and
    the time of its end; a change of memory has the fields of a `MemorySample`, with the numbers of
    places in its changes.

    Raises:
        ValueError: the records do not form rows.
    """
    records = RECORD.iter_unpack(block)
    for record in records:
        kind, small, a, b, c, d, value, _ = record
        if kind == TRANSFER:
            ((_, _, elements, low, high, has_ended, end_ns, _),) = _following(record, records)
            yield (
                "transfer",
                TransferRow(
                    id=a,
                    parent=b,
                    op=Op.RECEIVE if c % 2 else Op.SEND,
                    peer=c // 2,
                    elements=elements,
                    payload_bytes=high << 32 | low,
                    start_ns=value,
                    end_ns=end_ns if has_ended else None,
                    hop=small - 1 if small else None,
                    shard=d - 1 if d else None,
                ),
            )
        elif kind == CLOSE:
            yield "close", (a, b, value)
        elif kind == BEGIN:
            row = OccurrenceRow(
                template=a,
                id=b,
                iteration=c - 1,
                micro_step=small,
                sequence=d - 1 if d else None,
                issue_ns=value,
            )
            yield "begin", row
        elif kind == HAPPENED:
            ((_, _, since_ns, _, _, _, end_ns, _),) = _following(record, records)
            row = OccurrenceRow(
                template=a,
                id=b,
                parent=d - 1 if d else None,
                iteration=c - 1,
                micro_step=small,
                issue_ns=value,
                start_ns=value + since_ns,
                end_ns=end_ns,
            )
            yield "happened", row
        elif kind == MEMORY:
            yield "memory", _sample(record, _following(record, records))
        else:
            raise ValueError("a further record of a short row without the first")


def _following(record: Record, records: Iterator[Record]) -> tuple[Record, ...]:
    """The further records of a row."""
    count = _num_more(record)
    found = tuple(islice(records, count))
    if len(found) < count or any(one[0] != MORE for one in found):
        raise ValueError(f"a short row without all of its {count} further records")
    return found


def _sample(record: Record, changes: tuple[Record, ...]) -> dict[str, Any]:
    _, micro_step, event, number, iteration, what, time_ns, _ = record
    phase, moment = what & 255, what >> 8 & 255
    if phase >= len(PHASES) or moment >= len(MOMENTS):
        raise ValueError(f"memory sample {number} is at an unknown moment or phase")
    return {
        "number": number,
        "event": event - 1 if event else None,
        "moment": MOMENTS[moment],
        "iteration": iteration - 1,
        "micro_step": micro_step,
        "phase": PHASES[phase],
        "time_ns": time_ns,
        "changes": [(one[2], one[6]) for one in changes],
    }


def plain_rows(
    block: bytes, places: Mapping[int, Mapping[str, Any]], issued: dict[int, int]
) -> Iterator[dict[str, Any]]:
    """The rows of a block with the fields that their lines of text would have.

    Args:
        places: the fields of the rows `place` so far, by number.
        issued: the time of issue of each open event; updated here.
    """
    for name, row in rows_of(block):
        if name == "close":
            number, since_issue_ns, end_ns = row
            start_ns = issued.pop(number, 0) + since_issue_ns
            yield {"row": name, "id": number, "start_ns": start_ns, "end_ns": end_ns}
        elif name == "memory":
            changes = [
                {"tier": Tier.DEVICE, **places.get(place, {}), "bytes": num_bytes}
                for place, num_bytes in row["changes"]
            ]
            yield {"row": name, **row, "changes": changes}
        else:
            if name == "begin":
                issued[row.id] = row.issue_ns
            values = {field.name: getattr(row, field.name) for field in fields(ROW_TYPES[name])}
            yield {"row": name, **{key: v for key, v in values.items() if v != _LEFT_OUT.get(key)}}
