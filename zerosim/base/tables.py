"""Tables: the numbers of a run, for the terminal, for notebooks and for other programs.

A column states the evidence of its numbers; a number that was not recorded is None, never 0.
"""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from io import StringIO
from typing import Any

from zerosim.base.errors import ConfigError, EnvironmentFault

MOST_SHOWN = 40
"""Maximum number of rows that a printed table shows."""
NOT_RECORDED = "not recorded"
_KEPT = frozenset("\n\t\u00a0")
"""Unprintable characters that are kept: they do not control a terminal."""
Cell = str | int | float | bool | None
"""The value of a cell; None if not recorded."""


class Evidence(StrEnum):
    """The evidence of a number."""

    MEASURED = "measured"
    """The kernel or PyTorch's allocator counted it."""
    TRACED = "traced"
    """Intercepted where the program called PyTorch."""
    COMPUTED = "computed"
    """Computed from traced values: the bound of a native call, a budget of time."""
    PREDICTED = "predicted"
    """By theory alone; a time, by a machine's constants."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its name with its unit, such as `sent_bytes`.
        evidence: the evidence of its numbers; None for columns that name the rows.
    """

    name: str
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows and columns.

    `for row in table` gives rows as dicts, `table["sent_bytes"]` a column.

    Attributes:
        title: title of the table.
        rows: the rows, with a cell for each column.
        notes: reasons for missing records, and other remarks for the reader.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(column.name for column in self.columns)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.names, row, strict=True)) for row in self.rows)

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        """A column.

        Raises:
            ConfigError: there is no such column.
        """
        if name not in self.names:
            raise ConfigError(f"column is {name!r}: expected one of {', '.join(self.names)}")
        place = self.names.index(name)
        return tuple(row[place] for row in self.rows)

    def with_times(self, evidence: Evidence) -> Table:
        """The same, with other evidence for its times (columns in ns)."""
        columns = (
            replace(one, evidence=evidence) if one.evidence and one.name.endswith("_ns") else one
            for one in self.columns
        )
        return replace(self, columns=tuple(columns))

    def total(self, name: str) -> int | None:
        """The sum of a column; None if one of its numbers was not recorded."""
        values = self[name]
        return None if None in values else sum(values)

    @property
    def sent_bytes(self) -> int | None:
        """Bytes sent, summed over all rows, as traced; None if not recorded."""
        return self.total("sent_bytes")

    @property
    def received_bytes(self) -> int | None:
        """Bytes received, summed over all rows, as traced; None if not recorded."""
        return self.total("received_bytes")

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "title": self.title,
            "columns": [{"name": one.name, "evidence": one.evidence} for one in self.columns],
            "rows": list(self),
            "notes": list(self.notes),
        }

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`.

        Raises:
            EnvironmentFault: pandas is not installed.
        """
        return self._frame("pandas")

    def to_polars(self) -> Any:
        """A `polars.DataFrame`.

        Raises:
            EnvironmentFault: polars is not installed.
        """
        return self._frame("polars")

    def _frame(self, library: str) -> Any:
        try:
            found = importlib.import_module(library)
        except ImportError:
            raise EnvironmentFault(
                f"{library} is not installed: pip install {library}, or use to_dict()"
            ) from None
        return found.DataFrame({name: list(self[name]) for name in self.names})

    def __repr__(self) -> str:
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        shown = RichTable()
        for column, is_number in zip(self.columns, self._are_numbers(), strict=True):
            heading = Text("\n".join(filter(None, (column.name, column.evidence))))
            shown.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
        for row in self.rows[:MOST_SHOWN]:
            shown.add_row(*(Text(cell_text(cell)) for cell in row))
        written = StringIO()
        # in a notebook rich would show it at once, and the cell again
        console = Console(file=written, width=1000, color_system=None, force_jupyter=False)
        console.print(shown)
        rows = written.getvalue().rstrip("\n")
        return "\n".join([written_out(self.title), rows, *self._remarks()])

    def _repr_html_(self) -> str:
        heads = "".join(
            f"<th>{html_text(column.name)}<br><small>{column.evidence or ''}</small></th>"
            for column in self.columns
        )
        sides = ["right" if is_number else "left" for is_number in self._are_numbers()]
        rows = "".join(
            "<tr>"
            + "".join(
                f'<td style="text-align:{side}">{html_text(cell_text(cell))}</td>'
                for side, cell in zip(sides, row, strict=True)
            )
            + "</tr>"
            for row in self.rows[:MOST_SHOWN]
        )
        remarks = "".join(f"<p>{html_text(line)}</p>" for line in self._remarks())
        return (
            f"<table><caption>{html_text(self.title)}</caption><thead><tr>{heads}</tr></thead>"
            f"<tbody>{rows}</tbody></table>{remarks}"
        )

    def _remarks(self) -> Sequence[str]:
        more = len(self.rows) - MOST_SHOWN
        cut = [f"... and {more:,} more rows"] if more > 0 else []
        return [*cut, *(f"note: {written_out(note)}" for note in self.notes)]

    def _are_numbers(self) -> list[bool]:
        return [not any(isinstance(cell, str) for cell in self[name]) for name in self.names]


def written_out(text: str) -> str:
    """A text of a trace for a terminal, with control characters escaped."""
    return "".join(one if one.isprintable() or one in _KEPT else ascii(one)[1:-1] for one in text)


def cell_text(cell: Cell) -> str:
    """The text of a cell: exact, with thousands separators."""
    if cell is None:
        return NOT_RECORDED
    if isinstance(cell, bool | str):
        return written_out(" ".join(str(cell).split("\n")))
    return f"{cell:,}" if isinstance(cell, int) else f"{cell:,.3f}"


def html_text(text: str) -> str:
    """A text of a trace for a page."""
    return html.escape(written_out(text))
