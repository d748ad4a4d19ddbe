"""The components of a figure: bars to one scale, a table, a drawing."""

from __future__ import annotations

from dataclasses import dataclass
from unicodedata import east_asian_width

from zerosim.lessons.views.wording import part_name

_LONG = 24
"""Characters of a cell from which it counts as prose."""


def width_of(text: str) -> int:
    """The width of a text, in Latin letters: a Chinese character takes two."""
    return sum(2 if east_asian_width(each) in "WF" else 1 for each in text)


@dataclass(frozen=True, slots=True)
class BarPart:
    """A piece of a bar: its value in the bars' unit, and a colour's name ("forward", "rank 0")."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """The displayed name."""
        return part_name(self.name)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar, and the position of its law's mark; None if no law is known."""

    label: str
    parts: tuple[BarPart, ...]
    law: float | None = None

    @property
    def total(self) -> float:
        """All parts together."""
        return sum(part.value for part in self.parts)


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars to one scale.

    Attributes:
        title: the measured quantity, with its source.
        unit: unit of all values.
        law: meaning of the marks, in words; "" if there are none.
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

    @property
    def is_text(self) -> tuple[bool, ...]:
        """For each column, whether it has sentences."""
        return tuple(
            any(width_of(cell) > _LONG for cell in column)
            for column in zip(*self.rows, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A component of a drawing: a matrix, a part of one, a block of memory.

    Attributes:
        look: name of a colour, as for a `BarPart`; "" for paper.
        label: text in its middle, if there is room.
        is_partial: whether its contents are incomplete.
        shrinks_from: initial width, as a multiple; 1 for a box that does not move.
    """

    x: float
    y: float
    width: float
    height: float
    look: str = ""
    label: str = ""
    is_partial: bool = False
    shrinks_from: float = 1


@dataclass(frozen=True, slots=True)
class Note:
    """Words in a drawing; `anchor` tells which end of them is at x, `y` is their line."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    is_strong: bool = False


@dataclass(frozen=True, slots=True)
class Arrow:
    """Something moves from one place to another."""

    x: float
    y: float
    to_x: float
    to_y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Boxes, words and arrows, with positions computed from numbers.

    Attributes:
        width, height: in the units of all positions; a letter takes about nine.
        legend: names of colours without a label.
        table: the same in rows, for a terminal and for readers who do not see it.
    """

    width: float
    height: float
    boxes: tuple[Box, ...]
    notes: tuple[Note, ...] = ()
    arrows: tuple[Arrow, ...] = ()
    legend: tuple[str, ...] = ()
    table: FigureTable

    @property
    def title(self) -> str:
        """A description of the drawing."""
        return self.table.title


View = Bars | FigureTable | Drawing
