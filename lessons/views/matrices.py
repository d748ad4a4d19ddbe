"""Drawings of matrices that tensor parallel cuts.

Sizes are the trace's, given in words; the drawing is not to scale, so that a rank's part of a
matrix can be distinguished from another's.
"""

from __future__ import annotations

from collections.abc import Iterator

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import Box, Drawing, FigureTable, Note
from zerosim.lessons.views.wording import each, said

_FIRST, _SECOND = "blocks.0.mlp.0", "blocks.0.mlp.2"
_AFTER = {"column": "column", "row": "partial"}
"""The result of a product after each sharding."""
_SIDE, _WIDE, _HIGH = 92.0, 112.0, 104.0
_TOP, _RIGHT = 58.0, 420.0
_SHEET = 7.0
"""Distance between the sheets of a sum."""


def two_cuts(facts: Facts, run: str) -> Drawing:
    """The two ways to shard a matrix, and each rank's part of the product."""
    num = facts.num_ranks(run)
    rows, columns = facts.shape(run, _FIRST)[2], facts.shape(run, _FIRST, "output")[2]
    boxes, notes = [], []
    ways = (("by_columns", "column", "whole"), ("by_rows", "row", "column"))
    for left, (name, cut, given) in zip((0.0, _RIGHT), ways, strict=True):
        boxes += [
            *_matrix(left, _SIDE, num, given),
            *_matrix(left + 118, _WIDE, num, cut),
            *_matrix(left + 256, _WIDE, num, _AFTER[cut]),
        ]
        notes += [
            Note(left, 18, said(f"two_cuts.{name}"), is_strong=True),
            Note(left + _SIDE / 2, 46, "x", "middle"),
            Note(left + 105, _TOP + 58, "·", "middle"),
            Note(left + 174, 46, "A", "middle"),
            Note(left + 243, _TOP + 58, "=", "middle"),
            Note(left + 312, 46, "x·A", "middle"),
        ]
    notes += [
        Note(left, line, words)
        for left, name in ((0, "below_columns"), (_RIGHT, "below_rows"))
        for line, words in zip((186, 208), each(f"two_cuts.{name}"), strict=True)
    ]
    table = FigureTable(
        said("two_cuts.title", rows=f"{rows:,}", columns=f"{columns:,}", num=num),
        each("two_cuts.columns"),
        tuple(
            (
                f"rank {rank}",
                _range(rank, columns, num),
                said("two_cuts.some_columns", range=_range(rank, columns, num)),
                _range(rank, rows, num),
                said("two_cuts.all_columns", part=said("matrix.partial", num=num)),
            )
            for rank in range(num)
        ),
    )
    return Drawing(width=790, height=214, boxes=tuple(boxes), notes=tuple(notes), table=table)


def block(facts: Facts, run: str) -> Drawing:
    """The program's sharding of a block's two matrices, with the activations between and after
    them.
    """
    num = facts.num_ranks(run)
    first, second = facts.cut(run, _FIRST), facts.cut(run, _SECOND)
    width, hidden = facts.shape(run, _FIRST)[2], facts.shape(run, _FIRST, "output")[2]
    columns = (
        (0.0, "x", said("block.wide", width=f"{width:,}"), "whole"),
        (156.0, said(f"block.first_{first}"), _size(width, hidden), first),
        (332.0, "GELU(x·A)", said("block.wide", width=f"{hidden:,}"), _AFTER[first]),
        (508.0, said(f"block.second_{second}"), _size(hidden, width), second),
        (676.0, said("block.output"), said("block.wide", width=f"{width:,}"), _AFTER[second]),
    )
    boxes: list[Box] = []
    notes = []
    for left, name, size, cut in columns:
        wide = _WIDE if cut in _AFTER else _SIDE
        boxes += _matrix(left, wide, num, cut)
        notes += [
            Note(left + wide / 2, 20, name, "middle", is_strong=True),
            Note(left + wide / 2, 44, size, "middle"),
        ]
    if _AFTER[second] == "partial":
        notes.append(Note(790, 188, said("block.summed", num=num), "end"))
    table = FigureTable(
        said("block.title", num=num),
        (
            "",
            said(f"block.of_first_{first}"),
            said(f"block.of_second_{second}"),
            said("block.of_output"),
        ),
        tuple(
            (
                f"rank {rank}",
                _range(rank, hidden if first == "column" else width, num),
                _range(rank, hidden if second == "row" else width, num),
                said(f"matrix.{_AFTER[second]}", num=num),
            )
            for rank in range(num)
        ),
    )
    return Drawing(width=790, height=196, boxes=tuple(boxes), notes=tuple(notes), table=table)


def _size(rows: int, columns: int) -> str:
    return f"{rows:,} × {columns:,}"  # noqa: RUF001 - times


def _range(rank: int, size: int, num: int) -> str:
    """A rank's part of `num` rows or columns."""
    first, last = rank * size // num, (rank + 1) * size // num - 1
    return said("matrix.range", first=f"{first:,}", last=f"{last:,}")


def _matrix(left: float, width: float, num: int, cut: str) -> Iterator[Box]:
    """A matrix over all ranks together: whole, sharded, or as sheets to be added."""
    if cut == "whole":
        yield Box(x=left, y=_TOP, width=width, height=_HIGH, label=said("matrix.all"))
        return
    for rank in range(num):
        look, label = f"rank {rank}", str(rank)
        if cut == "column":
            part = width / num
            yield Box(
                x=left + rank * part, y=_TOP, width=part, height=_HIGH, look=look, label=label
            )
        elif cut == "row":
            part = _HIGH / num
            yield Box(
                x=left, y=_TOP + rank * part, width=width, height=part, look=look, label=label
            )
        else:
            yield _sheet(left, width, num, rank)


def _sheet(left: float, width: float, num: int, rank: int) -> Box:
    """A rank's part of each sum, over those of the previous ranks."""
    return Box(
        x=left + rank * _SHEET,
        y=_TOP + rank * _SHEET,
        width=width - (num - 1) * _SHEET,
        height=_HIGH - (num - 1) * _SHEET,
        look=f"rank {rank}",
        label=said("matrix.parts", num=num) if rank == num - 1 else "",
        is_partial=True,
    )
