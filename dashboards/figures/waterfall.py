"""From the law to the wire, cause by cause: where each bar of a waterfall stands.

Imports the standard library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

LEAST = 0.4
"""Percent of the height: a bar that is lower could not be seen, and says so by its number."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar.

    Attributes:
        name: what it stands for.
        bytes: its own; negative for what is less.
        bottom, height: percent of the figure's height.
        level: percent, where the next bar goes on.
        kind: "total" for the ends, for a cause the look of what it makes of the law.
        words: the cause in words; "" for the ends.
    """

    name: str
    bytes: Fraction
    bottom: float
    height: float
    level: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A named difference. `look` is its outcome's: "good" for what a law leaves out."""

    name: str
    bytes: Fraction
    words: str
    look: str


def waterfall(
    first: tuple[str, Fraction], causes: Sequence[Cause], last: tuple[str, Fraction | None]
) -> tuple[Bar, ...]:
    """The bars from left to right.

    Args:
        first: name and bytes of where it begins.
        causes: in order.
        last: name and bytes of where it ends; None if that was not measured: then there is none.
    """
    levels = [first[1]]
    for cause in causes:
        levels.append(levels[-1] + cause.bytes)
    most = max([*levels, last[1] or Fraction(0), Fraction(1)])

    def percent(value: Fraction) -> float:
        return float(100 * value / most)

    bars = [Bar(first[0], first[1], 0.0, percent(first[1]), percent(first[1]), "total", "")]
    for cause, before, after in zip(causes, levels[:-1], levels[1:], strict=True):
        bottom, height = percent(min(before, after)), percent(abs(cause.bytes))
        height = max(LEAST, height)
        bars.append(
            Bar(
                cause.name,
                cause.bytes,
                min(bottom, 100 - height),
                height,
                percent(after),
                cause.look,
                cause.words,
            )
        )
    if last[1] is not None:
        bars.append(Bar(last[0], last[1], 0.0, percent(last[1]), percent(last[1]), "total", ""))
    return tuple(bars)
