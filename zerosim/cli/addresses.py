"""The address map of a device with a limit: three lines, one of them a map."""

from __future__ import annotations

from fractions import Fraction

from rich.console import Console
from rich.text import Text

from zerosim.analysis.addresses import AddressRow, address_table, sketch
from zerosim.base.language import term
from zerosim.base.quantities import format_bytes, format_decimal
from zerosim.cli.plot import GLYPHS
from zerosim.cli.wording import said
from zerosim.record import Trace
from zerosim.schema.memory import AddressMap, Role

_NUM_CELLS = 64
_FREE = "."


def print_addresses(console: Console, trace: Trace, rank: int, iteration: int | None) -> None:
    """Draw one rank's device in an iteration; prints nothing if the device had no limit.

    Args:
        iteration: None for the last one that the rank recorded.
    """
    (recorded,) = (one for one in trace.ranks if one.rank == rank)
    rows = {row.iteration: row for row in address_table(recorded)}
    row = rows.get(max(rows, default=-1) if iteration is None else iteration)
    if row is None:
        return
    console.print()
    shown = row.peak if row.full is None else row.full
    console.print(_told(row, shown, rank))
    console.print(_map(shown))
    roles = {block.role for block in shown.blocks}
    names = [f"{letter} {term(role)}" for role, (letter, _) in GLYPHS.items() if role in roles]
    free = said("plot.free", sign=_FREE)
    console.print(Text("  " + said("plot.comma").join([*names, free]), style="dim"))


def _told(row: AddressRow, shown: AddressMap, rank: int) -> str:
    return said(
        "plot.peak" if row.full is None else "plot.full",
        rank=rank,
        limit=format_bytes(shown.limit_bytes),
        phase=term(shown.phase),
        free=format_bytes(shown.free_bytes),
        share=_share(shown),
        worst=term(row.scattered.phase),
        worst_share=_share(row.scattered),
    )


def _share(drawn: AddressMap) -> str:
    return f"{format_decimal(100 * Fraction(drawn.largest_free_share), 1)} %"


def _map(drawn: AddressMap) -> Text:
    line = Text("  [")
    for role in sketch(drawn, _NUM_CELLS):
        letter, colour = (_FREE, "dim") if role is None else GLYPHS[Role(role)]
        line.append(letter, style=colour)
    return line.append("]")
