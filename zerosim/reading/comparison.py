"""Runs side by side, as something to print, to look at and to go on with.

Imports zerosim's L0, verify and the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zerosim.record import Trace
from zerosim.tables import Cell, Column, Table, html_text, written_out
from zerosim.verify.comparison import compare
from zerosim.verify.differences import differences, headline, notes
from zerosim.verify.side import Side


class Comparison:
    """Two to four runs, aligned by phase and unit.

    Attributes:
        sides: what each sent, held and took.
    """

    def __init__(self, traces: Sequence[Trace]) -> None:
        """Measure them.

        Raises:
            ConfigError: too few, or too many.
            TraceError: one of them has no iteration that all its ranks finished.
        """
        self.sides: tuple[Side, ...] = compare(traces)

    @property
    def headline(self) -> str:
        """What it amounts to, in a sentence."""
        return headline(self.sides)

    @property
    def differences(self) -> tuple[str, ...]:
        """What tells the others from the first, a sentence for each thing."""
        return differences(self.sides)

    @property
    def table(self) -> Table:
        """What the first rank of each sends, holds and takes."""
        rows: list[tuple[Cell, ...]] = [
            ("sent_bytes", *(side.total_bytes for side in self.sides)),
            ("wire_bytes", *(side.wire_bytes for side in self.sides)),
            ("model_states_bytes", *(_states(side) for side in self.sides)),
            ("peak_bytes", *(_peak(side) for side in self.sides)),
            ("iteration_ns", *(_duration(side) for side in self.sides)),
            ("loss", *(side.loss for side in self.sides)),
        ]
        columns = (Column("first rank"), *(Column(side.name) for side in self.sides))
        return Table(self.headline, columns, tuple(rows), notes(self.sides))

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON knows: what the command prints with --json."""
        return {
            "headline": self.headline,
            "notes": list(notes(self.sides)),
            "differences": list(self.differences),
            "sides": [side.to_plain() for side in self.sides],
        }

    def __repr__(self) -> str:
        return "\n".join([repr(self.table), *map(written_out, self.differences)])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html_text(one)}</li>" for one in self.differences)
        return f"{self.table._repr_html_()}<ul>{items}</ul>"


def _states(side: Side) -> Cell:
    return None if side.held is None else side.held.states_bytes


def _peak(side: Side) -> Cell:
    return None if side.held is None else side.held.highest_bytes


def _duration(side: Side) -> Cell:
    return None if side.times is None else side.times.duration_ns
