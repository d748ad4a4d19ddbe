"""The output of a command: lines, and a table of the ranks' tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_BARS = " ▁▂▃▄▅▆▇█"
_FIRST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class ReplyTable:
    """The displayed cells; every row is as long as the headings."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def lines(self) -> list[str]:
        """For a terminal."""
        widths = [max(map(len, column)) for column in zip(self.heads, *self.rows, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.heads, *self.rows)
        ]

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {"heads": list(self.heads), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True, slots=True)
class Reply:
    """The text after a command."""

    said: Sequence[str] = ()
    table: ReplyTable | None = None

    def lines(self) -> list[str]:
        """For a terminal."""
        return [*self.said, *(self.table.lines() if self.table else ())]

    def to_plain(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "lines": list(self.said),
            "table": None if self.table is None else self.table.to_plain(),
        }


def table_of_tensors(rows: Iterable[Mapping[str, Any]]) -> ReplyTable:
    """The tensors of one rank, one row per role and unit."""
    return ReplyTable(
        ("role", "unit", "dtype", "shape", "bytes", "norm", "min", "max", "not finite"),
        tuple(_cells(row) for row in rows),
    )


def table_across(found: Iterable[tuple[int, Mapping[str, Any]]]) -> ReplyTable:
    """The tensors of several ranks side by side."""
    return ReplyTable(
        ("rank", "dtype", "shape", "norm", "min", "max", "checksum", "histogram", "first"),
        tuple(
            (
                str(rank),
                *_cells(row)[2:4],
                *_cells(row)[5:8],
                row["checksum"],
                _histogram(row["histogram"]),
                " ".join(_number(one) for one in row["first"][:_FIRST_SHOWN]),
            )
            for rank, row in found
        ),
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    shapes = row["shapes"]
    shape = "x".join(map(str, shapes[0])) if len(shapes) == 1 else f"{len(shapes)} tensors"
    numbers = [_number(row[name]) for name in ("norm", "min", "max")]
    common = (row["role"], row["unit"], row["dtype"], shape or "1", f"{row['bytes']:,}")
    return (*common, *numbers, str(row["non_finite"]))


def _number(value: float | str | None) -> str:
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def _histogram(counts: Sequence[int]) -> str:
    most = max(counts, default=0)
    return "".join(_BARS[-(-(len(_BARS) - 1) * one // most)] if most else " " for one in counts)
