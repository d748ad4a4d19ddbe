"""How quantities are written and read: exact integers, bytes, multiples of Psi.

An exact number is never shown rounded: a whole number gets thousands separators, a fraction stays a
fraction. A rounded number always shows this by its unit (`9.57 MB`) or its decimals (`1.500 Ψ`).
Prefixes are decimal: 1 MB = 10^6 B. All rounding is done in whole numbers, half to even.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.language import LISTS

PSI = "Ψ"
"""The number of parameters of a model, as the paper writes it."""

_PREFIXES = ("B", "kB", "MB", "GB", "TB", "PB")
_QUANTITY = re.compile(r"(\d[\d,_]*(?:\.\d+)?)\s*([A-Za-z]*)", re.ASCII)


def format_exact(value: int | Fraction) -> str:
    """Write a number exactly: `9,566,208`, `2,252 1/4`, `-1/3`.

    Args:
        value: any whole number or fraction.
    """
    sign = "-" if value < 0 else ""
    whole, rest = divmod(abs(Fraction(value)), 1)
    if rest == 0:
        return f"{sign}{whole:,}"
    part = f"{rest.numerator}/{rest.denominator}"
    return f"{sign}{whole:,} {part}" if whole else f"{sign}{part}"


def format_exact_bytes(value: int | Fraction) -> str:
    """Write a number of bytes exactly: `9,566,208 B`."""
    return f"{format_exact(value)} B"


def format_bytes(value: int | Fraction) -> str:
    """Write a number of bytes with three significant digits: `9.57 MB`, `12 B`.

    Args:
        value: bytes; below 1000 a whole number is written exactly.
    """
    sign = "-" if value < 0 else ""
    size = abs(Fraction(value))
    if size < 1000 and size.denominator == 1:
        return f"{sign}{size.numerator} B"
    text = ""
    for power, name in enumerate(_PREFIXES):
        scaled = size / 1000**power
        num_decimals = 2 if round(scaled, 2) < 10 else 1 if round(scaled, 1) < 100 else 0
        text = f"{sign}{format_decimal(scaled, num_decimals)} {name}"
        if round(scaled) < 1000:
            break
    return text


def format_amount(value: float) -> str:
    """Write a large count with three significant digits: `57.2B`, `4M`, `2.81T`."""
    for power, name in ((12, "T"), (9, "B"), (6, "M"), (3, "k")):
        if value >= 0.9995 * 10**power:
            return f"{value / 10**power:.3g}{name}"
    return f"{value:.3g}"


def format_decimal(value: int | Fraction, num_decimals: int) -> str:
    """Write a number rounded to `num_decimals` places, with thousands separators."""
    scaled = round(Fraction(value) * 10**num_decimals)
    whole, rest = divmod(abs(scaled), 10**num_decimals)
    sign = "-" if scaled < 0 else ""
    return f"{sign}{whole:,}.{rest:0{num_decimals}}" if num_decimals else f"{sign}{whole:,}"


def format_psi(multiple: int | Fraction, num_decimals: int = 3) -> str:
    """Write a multiple of the number of parameters: `1.500 Ψ`.

    Args:
        multiple: payload or traffic divided by the size of all parameters.
        num_decimals: places after the point.
    """
    return f"{format_decimal(multiple, num_decimals)} {PSI}"


def parse_count(text: str) -> int:
    """Read a whole number: `3188736`, `3,188,736` or `3_188_736`.

    Raises:
        ConfigError: the text is not a whole number of 0 or more.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2] or "." in match[1]:
        raise ConfigError(f"{text!r} is not a count: expected a whole number such as 3,188,736")
    return int(match[1].replace(",", "").replace("_", ""))


def first_of(lines: Sequence[str]) -> str:
    """The first of several sentences, and the number of the others."""
    if len(lines) == 1:
        return lines[0]
    return LISTS("more", first=lines[0], count=len(lines) - 1)


def without_more(text: str) -> str:
    """The first of several sentences alone."""
    beside, _, _ = str(LISTS.table["more"]).partition("{count}")
    return text.partition(beside.removeprefix("{first}"))[0]


def parse_bytes(text: str) -> int:
    """Read a number of bytes: `4096`, `1 MB` (10^6) or `1 MiB` (2^20).

    Raises:
        ConfigError: it is not a whole number of bytes; the message lists the units.
    """
    match = _QUANTITY.fullmatch(text.strip())
    units: dict[str, int] = {"": 1}
    units |= {name: 1000**power for power, name in enumerate(_PREFIXES)}
    units |= {
        f"{name[0].upper()}iB": 1 << 10 * power for power, name in enumerate(_PREFIXES) if power
    }
    if match is None or match[2] not in units:
        raise ConfigError(
            f"{text!r} is not a number of bytes: expected a number and one of "
            f"{', '.join(unit for unit in units if unit)}"
        )
    value = Fraction(match[1].replace(",", "").replace("_", "")) * units[match[2]]
    if value.denominator != 1:
        raise ConfigError(f"{text!r} is {format_exact(value)} bytes: expected a whole number")
    return value.numerator
