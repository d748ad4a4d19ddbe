"""How tables reach a terminal: NO_COLOR is honoured, and a pipe gets lines that are not cut."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

_WIDTH_OF_A_PIPE = 200


def make_console() -> Console:
    """The console for results."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_PIPE
    return console


def make_table(*columns: str, left: int = 1) -> Table:
    """A table without lines; the first `left` columns are text, the others numbers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="left" if index < left else "right", no_wrap=True)
    return table


def print_json(value: Any) -> None:
    """Write a value as indented JSON."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")
