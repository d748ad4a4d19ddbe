"""Two layouts of one question side by side: each part of time and memory in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from zerosim.base.language import term
from zerosim.base.quantities import format_amount, format_bytes
from zerosim.dashboards.texts import SITE
from zerosim.predict.plan import PredictedLayout
from zerosim.predict.plan.schedule import TimeCategory

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One quantity of both, and the second minus the first; "" if they are equal."""

    what: str
    first: str
    second: str
    difference: str


@dataclass(frozen=True, slots=True)
class ComparedPart:
    """Rows that add up, or belong together."""

    title: str
    rows: tuple[ComparedRow, ...]


@dataclass(frozen=True, slots=True)
class ComparedLayouts:
    """Two layouts.

    Attributes:
        sentence: which one is faster, and by how much.
        alone: the address without the second layout; swapped: with the two exchanged.
    """

    first: str
    second: str
    sentence: str
    parts: tuple[ComparedPart, ...]
    alone: str
    swapped: str


def compared_of(
    first: tuple[str, PredictedLayout],
    second: tuple[str, PredictedLayout],
    *,
    alone: str,
    swapped: str,
) -> ComparedLayouts:
    """Compare two predictions, by their names.

    Args:
        alone, swapped: addresses.
    """
    (one_name, one), (other_name, other) = first, second
    return ComparedLayouts(
        one_name,
        other_name,
        _sentence(first, second),
        (
            ComparedPart(SITE("plan.compared_whole"), tuple(_whole(one, other))),
            ComparedPart(SITE("plan.compared_time"), tuple(_times(one, other))),
            ComparedPart(SITE("plan.compared_memory"), tuple(_memory(one, other))),
        ),
        alone,
        swapped,
    )


def _sentence(first: tuple[str, PredictedLayout], second: tuple[str, PredictedLayout]) -> str:
    one, other = first[1], second[1]
    share = other.step_s / one.step_s - 1
    if abs(share) < _ALIKE:
        words = SITE("plan.compared_alike")
    else:
        quick, slow = ("A", "B") if share > 0 else ("B", "A")
        by = max(one.step_s, other.step_s) / min(one.step_s, other.step_s) - 1
        words = SITE("plan.compared_faster", first=quick, second=slow, share=f"{by:.1%}")
    too_large = [name for name, each in (("A", one), ("B", other)) if not each.fits]
    if too_large:
        words += " " + SITE("plan.compared_too_large", names=", ".join(too_large))
    return words


_ALIKE = 0.005
"""Relative difference below which two steps count as equally fast."""


def _row(
    what: str, one: float, other: float, said: Callable[[float], str], *, exact: bool = False
) -> ComparedRow:
    """`exact`: show the difference like the values; otherwise as a fraction of the first."""
    difference = other - one
    first, second = said(one), said(other)
    if not difference or (first == second and not exact):
        return ComparedRow(what, first, second, "")
    sign = "+" if difference > 0 else MINUS
    if exact or not one:
        return ComparedRow(what, first, second, f"{sign}{said(abs(difference))}")
    return ComparedRow(what, first, second, f"{sign}{abs(difference / one):.1%}")


def _whole(one: PredictedLayout, other: PredictedLayout) -> Iterator[ComparedRow]:
    def rate(each: PredictedLayout) -> float:
        return each.tokens_per_second / each.layout.num_ranks

    yield _row(SITE("plan.fact_step"), one.step_s, other.step_s, _seconds)
    yield _row(SITE("plan.fact_rate"), rate(one), rate(other), lambda value: f"{value:,.0f}")
    days = (one.tokens_per_day, other.tokens_per_day)
    yield _row(SITE("plan.fact_day"), *days, format_amount)
    yield _mfu(one.mfu, other.mfu)
    sizes = (one.footprint.bytes, other.footprint.bytes)
    yield _row(SITE("plan.fact_peak"), *sizes, _bytes)
    limits = (term(one.limit), term(other.limit))
    yield ComparedRow(SITE("plan.fact_limit"), *limits, "")


def _mfu(one: float, other: float) -> ComparedRow:
    row = _row(SITE("plan.mfu"), one, other, lambda value: f"{value:.1%}", exact=True)
    return replace(row, difference=_points(row.difference))


def _points(share: str) -> str:
    """A difference of two shares, in percentage points."""
    return SITE("plan.points", value=share.removesuffix("%")) if share else ""


def _times(one: PredictedLayout, other: PredictedLayout) -> Iterator[ComparedRow]:
    for cause in TimeCategory:
        first, second = (each.times.get(cause, 0) / 1e9 for each in (one, other))
        if first or second:
            yield _row(term(cause.value), first, second, _seconds, exact=True)


def _memory(one: PredictedLayout, other: PredictedLayout) -> Iterator[ComparedRow]:
    sizes = [{part.name: part.bytes for part in each.footprint.parts} for each in (one, other)]
    for name in _in_order(sizes):
        first, second = (each.get(name, 0) for each in sizes)
        yield _row(term(name), first, second, _bytes, exact=True)


def _in_order(sizes: Iterable[dict[str, int]]) -> list[str]:
    """Names of all parts: those of the first, then those that only the second has."""
    return list(dict.fromkeys(name for each in sizes for name in each))


def _bytes(value: float) -> str:
    return format_bytes(int(value))


def _seconds(value: float) -> str:
    return f"{value:,.3f} s"
