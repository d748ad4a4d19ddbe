"""A drawing of a unit's path from disk to devices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from zerosim.base.language import term
from zerosim.base.quantities import format_bytes
from zerosim.base.tiers import Tier
from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Arrow, Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said

_TIERS = (Tier.DISK, Tier.HOST, Tier.DEVICE)
_PLACES = (80.0, 260.0, 440.0, 620.0)
_PART, _WHOLE = 96.0, 170.0
_TOP, _LINE, _HIGH = 36.0, 70.0, 54.0


def journey(facts: Facts, run: str, unit: str) -> Drawing:
    """How the parameters of a unit get from each rank's disk to all devices, with their bytes."""
    boxes: list[Box] = []
    titles = (*map(term, _TIERS), said("journey.gathered"))
    notes = [
        Note(
            place + (_WHOLE if place == _PLACES[-1] else _PART) / 2,
            20,
            title,
            "middle",
            is_strong=True,
        )
        for place, title in zip(_PLACES, titles, strict=True)
    ]
    arrows, rows = [], []
    for rank, label in facts.ranks(run):
        top = _TOP + _LINE * int(rank)
        from_disk, from_host = (
            facts.fetched(run, unit, int(rank), tier) for tier in (Tier.HOST, Tier.DEVICE)
        )
        parts = {int(rank): from_host}
        for message in facts.messages(run, "all-gather", unit):
            if message.target == int(rank):
                parts[message.source] = message.bytes
        boxes += _on_the_way(int(rank), top, (from_disk, from_disk, from_host))
        boxes += _gathered(top, parts)
        notes.append(Note(0, top + 33, label))
        arrows += [
            Arrow(place + _PART + 6, top + _HIGH / 2, next_place - 6, top + _HIGH / 2)
            for place, next_place in pairwise(_PLACES)
        ]
        received = sum(parts.values()) - from_host
        sizes = (from_disk, from_host, received, from_host + received)
        rows.append((label, *(f"{size:,}" for size in sizes)))
    title = said("journey.title", unit=unit)
    return Drawing(
        width=790,
        height=_TOP + _LINE * len(rows) - 10,
        boxes=tuple(boxes),
        notes=tuple(notes),
        arrows=tuple(arrows),
        table=FigureTable(title, each("journey.columns"), tuple(rows)),
    )


def _on_the_way(rank: int, top: float, sizes: tuple[int, ...]) -> Iterator[Box]:
    """A rank's part in each of its tiers."""
    for left, size in zip(_PLACES, sizes, strict=False):
        yield Box(
            x=left,
            y=top,
            width=_PART,
            height=_HIGH,
            look=f"rank {rank}",
            label=format_bytes(size),
        )


def _gathered(top: float, parts: dict[int, int]) -> Iterator[Box]:
    """All parts of the unit on one device, as wide as they are large, in the order of ranks."""
    left, scale = _PLACES[-1], _WHOLE / sum(parts.values())
    for rank, size in sorted(parts.items()):
        yield Box(
            x=left,
            y=top,
            width=size * scale,
            height=_HIGH,
            look=f"rank {rank}",
            label=format_bytes(size),
        )
        left += size * scale
