"""A lesson's drawing as inline SVG: classes of its colours, and labels where there is room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zerosim.dashboards.figures.stacked import look_of
from zerosim.lessons.views.model import Arrow, Box, Drawing, FigureTable, Note, width_of
from zerosim.lessons.views.wording import part_name

_LETTER = 11.5
"""Width of the widest text, that of a projector."""
_LINE = 22.0


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box: `look` is its class in the style sheet, `label` "" if it has no room."""

    box: Box
    look: str
    label: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A drawing. `legend`: each name and look."""

    title: str
    width: float
    height: float
    boxes: tuple[DrawnBox, ...]
    notes: tuple[Note, ...]
    arrows: tuple[Arrow, ...]
    legend: tuple[tuple[str, str], ...]
    table: FigureTable


def drawn(shown: Drawing) -> Drawn:
    """Set the colours of a drawing."""
    looks = {name: look_of(name, number) for number, name in enumerate(shown.legend)}
    return Drawn(
        title=shown.title,
        width=shown.width,
        height=shown.height,
        boxes=tuple(DrawnBox(box, _class(box, looks), _label(box)) for box in shown.boxes),
        notes=shown.notes,
        arrows=shown.arrows,
        legend=tuple((part_name(name), look) for name, look in looks.items()),
        table=shown.table,
    )


def _class(box: Box, looks: Mapping[str, str]) -> str:
    look = looks.get(box.look) or look_of(box.look) if box.look else "of-paper"
    is_partial, shrinks = box.is_partial, box.shrinks_from > 1
    return " ".join([look, *["is-partial"] * is_partial, *["shrinks"] * shrinks])


def _label(box: Box) -> str:
    has_room = width_of(box.label) * _LETTER <= box.width and box.height >= _LINE
    return box.label if has_room else ""
