"""What a figure is made of: bars to one scale, or a table. Imports the standard library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: its value in the bars' unit, and a colour's name ("forward", "rank 0")."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, and where a law says that it ends; None if no law is known."""

    label: str
    parts: tuple[Part, ...]
    law: float | None = None

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars to one scale.

    Attributes:
        title: says what is measured, and by whom.
        unit: of all values.
        law: what the marks are, in words; "" if there are none.
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    law: str = ""


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Rows of words and numbers; the first column names the row."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


View = Bars | FigureTable
