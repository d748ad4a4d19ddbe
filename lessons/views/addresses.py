"""A drawing of memory by address, with its gaps."""

from __future__ import annotations

from itertools import pairwise

from zerosim.base.quantities import format_bytes
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said
from zerosim.schema.memory import AddressMap

_WIDTH = 790.0
_FREE = "free"
_HIGH = 76.0
"""A run with its title."""


def addresses(facts: Facts, *runs: str) -> Drawing:
    """The memory of a device from its first address to its last at its worst fragmentation."""
    boxes, notes, rows, roles = [], [], [], dict[str, None]()
    for number, run in enumerate(runs):
        top, drawn = _HIGH * number, facts.scattered(run)
        scale = _WIDTH / drawn.limit_bytes
        free = format_bytes(drawn.free_bytes)
        largest = format_bytes(drawn.largest_free_bytes)
        notes.append(Note(0, top + 16, facts.title(run), is_strong=True))
        notes.append(
            Note(_WIDTH, top + 16, said("addresses.free", free=free, largest=largest), "end")
        )
        for start, end, kept in _extents(drawn):
            is_largest = kept == _FREE and end - start == drawn.largest_free_bytes
            boxes.append(
                Box(
                    x=start * scale,
                    y=top + 26,
                    width=(end - start) * scale,
                    height=38,
                    look="" if kept == _FREE else kept,
                    label=said("addresses.largest") if is_largest else "",
                )
            )
            if kept == _FREE:
                rows.append((facts.title(run), f"{start:,}", f"{end - start:,}"))
            else:
                roles[kept] = None
    return Drawing(
        width=_WIDTH,
        height=_HIGH * len(runs) - 8,
        boxes=tuple(boxes),
        notes=tuple(notes),
        legend=tuple(roles),
        table=FigureTable(said("addresses.title"), each("addresses.columns"), tuple(rows)),
    )


def _extents(drawn: AddressMap) -> list[tuple[int, int, str]]:
    """Start, end and use of each range; neighbours of the same use are merged, gaps are free."""
    places = [(block.offset, block.offset + block.bytes, str(block.role)) for block in drawn.blocks]
    limit = drawn.limit_bytes
    ends = [(0, 0, _FREE), *places, (limit, limit, _FREE)]
    gaps = [(one[1], other[0], _FREE) for one, other in pairwise(ends)]
    merged: list[tuple[int, int, str]] = []
    for start, end, kept in sorted(one for one in places + gaps if one[1] > one[0]):
        if merged and merged[-1][2] == kept:
            merged[-1] = (merged[-1][0], end, kept)
        else:
            merged.append((start, end, kept))
    return merged
