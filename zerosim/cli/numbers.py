"""Numbers of several ranks in one cell of a table."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from zerosim.base.quantities import format_decimal
from zerosim.cli.wording import said


def not_measured() -> str:
    """The text for a missing measurement."""
    return said("ledger.not_measured")


def number_range(values: Sequence[int | None], unit: int | None = None) -> str:
    """The smallest and the largest of some numbers; one if they are equal."""
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return number(None)
    low, high = min(known), max(known)
    return number(low, unit) if low == high else f"{number(low, unit)}..{number(high, unit)}"


def number(value: int | None, unit: int | None = None) -> str:
    """An integer, or a multiple of a unit; None if not measured."""
    if value is None:
        return not_measured()
    return f"{value:,}" if unit is None else format_decimal(Fraction(value, unit), 3)
