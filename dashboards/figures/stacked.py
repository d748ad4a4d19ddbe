"""Geometry of a lesson's bars: parts side by side, and the mark of a law.

Numbers in, places in percent of the width out.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from zerosim.lessons.views import Bars
from zerosim.lessons.views.model import width_of

_ROOM = 1.04
"""Margin of the axis beyond the longest bar, so that a mark at its end is visible."""
_MOST_TICKS = 6
_SHORT = 2
"""Maximum length of a unit shown at each tick; a longer one is only beside each bar."""
_LETTER = 1.45
"""Percent of the width per letter of a part's name, to fit inside it on a projector."""
_KNOWN = re.compile(
    r"forward|backward|update|gathered|buffer|activation|parameter|gradient|master|momentum|variance|other$"
)
_RANK = re.compile(r"rank (\d+)")
_HUES = 8


@dataclass(frozen=True, slots=True)
class DrawnPart:
    """A piece of a bar. `look` is its class in the style sheet."""

    name: str
    text: str
    width: float
    look: str
    is_named: bool


@dataclass(frozen=True, slots=True)
class DrawnBar:
    """A bar. `law` is the position of its law's mark, None if it has none."""

    label: str
    text: str
    parts: tuple[DrawnPart, ...]
    law: float | None
    law_text: str


@dataclass(frozen=True, slots=True)
class Stacked:
    """A figure.

    Attributes:
        law: meaning of the marks, in words; "" if there are none.
        ticks: ticks of the axis: position and text.
        legend: each part's name and look, once.
    """

    title: str
    unit: str
    law: str
    bars: tuple[DrawnBar, ...]
    ticks: tuple[tuple[float, str], ...]
    legend: tuple[tuple[str, str], ...]


def stacked(shown: Bars) -> Stacked:
    """Lay bars out."""
    ends = [bar.total for bar in shown.bars] + [bar.law or 0 for bar in shown.bars]
    longest = max([end for end in ends if math.isfinite(end)], default=0) or 1.0
    step = _step(longest)
    whole = longest * _ROOM
    names = list(dict.fromkeys(part.name for bar in shown.bars for part in bar.parts))
    looks = {name: look_of(name, number) for number, name in enumerate(names)}
    words = {part.name: part.words for bar in shown.bars for part in bar.parts}

    def place(value: float) -> float:
        return round(100 * value / whole, 3)

    bars = []
    for bar in shown.bars:
        parts = tuple(
            DrawnPart(
                part.words,
                _text(part.value, shown.unit),
                place(part.value),
                looks[part.name],
                place(part.value) >= _LETTER * width_of(part.words) and len(bar.parts) > 1,
            )
            for part in bar.parts
            if part.value > 0
        )
        law = None if bar.law is None else place(bar.law)
        law_text = "" if bar.law is None else _text(bar.law, shown.unit)
        bars.append(DrawnBar(bar.label, _text(bar.total, shown.unit), parts, law, law_text))
    unit = shown.unit if len(shown.unit) <= _SHORT else ""
    ticks = tuple((place(at * step), _text(at * step, unit)) for at in range(int(whole / step) + 1))
    drawn = {part.name for bar in shown.bars for part in bar.parts if part.value > 0}
    legend = tuple((words[name], look) for name, look in looks.items() if name in drawn)
    return Stacked(
        shown.title,
        shown.unit,
        shown.law,
        tuple(bars),
        ticks,
        legend if len(legend) > 1 else (),
    )


def _step(longest: float) -> float:
    """Between ticks: 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(longest / _MOST_TICKS))
    return next(power * each for each in (1, 2, 5, 10) if longest / (power * each) <= _MOST_TICKS)


def _text(value: float, unit: str) -> str:
    """A value with its unit, as short as possible."""
    number = f"{value:,.0f}" if value >= 1000 else f"{value:.3f}".rstrip("0").rstrip(".")
    if unit == "\N{GREEK CAPITAL LETTER PSI}":
        return "0" if value == 0 else unit if value == 1 else f"{number}{unit}"
    return f"{number} {unit}".strip()


def look_of(name: str, number: int = 0) -> str:
    """A colour's class: each name means one colour everywhere, and a rank's means that rank.

    Args:
        number: colour index for an unknown name.
    """
    if rank := _RANK.search(name):
        return f"shard-{int(rank[1]) % _HUES}"
    known = _KNOWN.search(name.lower())
    return f"of-{known[0]}" if known else f"cause-{number % _HUES}"
