"""The output of results to a terminal, a pipe or a file: never cut, and NO_COLOR is honoured."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from zerosim.base.tables import written_out

_UNBOUNDED = 10_000
"""Columns of non-terminals: a table takes the width that it needs."""
_AT_ONCE = 1000
"""Rows that are printed together."""
_PAGE_WIDTH = 120
"""Columns of a paragraph in Markdown."""

ASCII_STANDS_IN = "zerosim.ascii-stands-in"
"""Error handler of a stream that cannot encode our signs: readable words replace them."""
_STAND_INS = {
    "✓": "ok",
    "✗": "NO",
    "≠": "!=",
    "Ψ": "Psi",
    "→": "->",
    "·": "-",
    "…": "...",
    "±": "+-",
    "µ": "u",
}


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(char, "?") for char in text), error.end


codecs.register_error(ASCII_STANDS_IN, _stand_in)


class _Console(Console):
    """Escapes terminal control characters, because a trace may contain any text."""

    def render_str(self, text: str, **options: Any) -> Text:
        """A text with room for escaped characters."""
        return super().render_str(written_out(text), **options)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The unchanged text."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            is_plain = control or text.isprintable() or text == "\n"
            yield segment if is_plain else Segment(written_out(text), style)


def make_console() -> Console:
    """The console for results."""
    console = _Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _UNBOUNDED
    return console


def make_table(*columns: str, left: int = 1, title: str | None = None) -> Table:
    """A table without lines; the first `left` columns are text, the others numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="dim",
        caption_justify="left",
        caption_style="dim",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table with complete numbers; in a narrow terminal, lines wrap.

    A column that may wrap does so first.
    """
    unbounded = console.options.update(width=_UNBOUNDED)
    for column in table.columns:
        if column.no_wrap:
            items = (column.header, *column.cells)
            column.min_width = max(Measurement.get(console, unbounded, i).maximum for i in items)
    width = console.width
    console.width = max(width, Measurement.get(console, unbounded, table).minimum)
    console.print(table)
    console.width = width


def print_rows(console: Console, table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Print any number of rows under a table's headings, as `print_table` would, without styles.

    Rich lays out each cell by itself, which takes a second for a thousand rows.
    """
    heads = [str(column.header) for column in table.columns]
    shown = [[c if c.isprintable() else written_out(c) for c in row] for row in rows]
    widths = [max(map(cell_len, cells)) for cells in zip(heads, *shown, strict=True)]
    is_left = [column.justify == "left" for column in table.columns]
    console.print(Text(_line(heads, widths, is_left), style=table.header_style))
    for start in range(0, len(shown), _AT_ONCE):
        lines = (_line(row, widths, is_left) for row in shown[start : start + _AT_ONCE])
        console.print(Text("\n".join(lines)))


def print_lines(console: Console, lines: Iterable[str]) -> None:
    """Print any number of lines, each as soon as it is known, because an error may follow."""
    for line in lines:
        console.out(line if line.isprintable() else written_out(line), highlight=False)


def _line(cells: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    padded = []
    for cell, width, left in zip(cells, widths, is_left, strict=True):
        room = " " * (width - cell_len(cell))
        padded.append(cell + room if left else room + cell)
    return "  ".join(padded).rstrip()


def print_json(value: Any) -> None:
    """Write a value as indented JSON."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def paragraph(words: str) -> list[str]:
    """The lines of a paragraph in Markdown."""
    return wrap(words, _PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)
