"""Short rows as they are read: blocks of records, each a row or a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from zerosim.base.tiers import Tier
from zerosim.schema.events import Op
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
_NOTHING: Record = (0, 0, 0, 0, 0, 0, 0, 0)
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


def rows_of(block: bytes) -> Iterator[tuple[Record, tuple[Record, ...]]]:
    """The rows of a block: the first record of each, and the others.

    Raises:
        ValueError: the records do not form rows.
    """
    records = RECORD.iter_unpack(block)
    for record in records:
        kind = record[0]
        if kind in _IN_TWO:
            second = next(records, _NOTHING)
            if second[0] != MORE:
                raise ValueError("a short row without its second record")
            yield record, (second,)
        elif kind == MEMORY:
            yield record, _changes(record, records)
        elif kind != MORE:
            yield record, ()
        else:
            raise ValueError("the second record of a short row without the first")


def _changes(record: Record, records: Iterator[Record]) -> tuple[Record, ...]:
    _, _, _, number, _, what, _, _ = record
    if what & 255 >= len(PHASES) or what >> 8 & 255 >= len(MOMENTS):
        raise ValueError(f"memory sample {number} is at an unknown moment or phase")
    found = tuple(islice(records, what >> 16))
    if len(found) < what >> 16 or any(one[0] != MORE for one in found):
        raise ValueError(f"memory sample {number} without all of its {what >> 16} changes")
    return found


def plain_rows(
    block: bytes, places: Mapping[int, Mapping[str, Any]], issued: dict[int, int]
) -> Iterator[dict[str, Any]]:
    """The rows of a block with the fields that their lines of text would have.

    Args:
        places: the fields of the rows `place` so far, by number.
        issued: the time of issue of each open event; updated here.
    """
    for (kind, micro_step, a, b, c, d, value, _), more in rows_of(block):
        at = {"iteration": c - 1, **({"micro_step": micro_step} if micro_step else {})}
        if kind == BEGIN:
            issued[b] = value
            after = {"sequence": d - 1} if d else {}
            yield {"row": "begin", "template": a, "id": b, **at, **after, "issue_ns": value}
        elif kind == CLOSE:
            yield {"row": "close", "id": a, "start_ns": issued.pop(a, 0) + b, "end_ns": value}
        elif kind == HAPPENED:
            ((_, _, since_ns, _, _, _, end_ns, _),) = more
            within = {"parent": d - 1} if d else {}
            times = {"issue_ns": value, "start_ns": value + since_ns, "end_ns": end_ns}
            yield {"row": "happened", "template": a, "id": b, **within, **at, **times}
        elif kind == TRANSFER:
            ((_, _, elements, low, high, has_ended, end_ns, _),) = more
            yield {
                "row": "transfer",
                "id": a,
                "parent": b,
                "op": Op.RECEIVE if c % 2 else Op.SEND,
                "peer": c // 2,
                "elements": elements,
                "payload_bytes": high << 32 | low,
                "start_ns": value,
                **({"end_ns": end_ns} if has_ended else {}),
                **({"hop": micro_step - 1} if micro_step else {}),
                **({"shard": d - 1} if d else {}),
            }
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
                    for _, _, place, *_, num_bytes, _ in more
                ],
            }
