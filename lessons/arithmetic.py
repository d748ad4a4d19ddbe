"""A number as a student writes it: 2.25, 9/4, 75%, 2+14/4, 9,921,024.

Exact: the value is a fraction until the end. Nothing is executed: sums have a grammar of their own,
with + - * / ( ), and % for hundredths.

    sum = product {("+" | "-") product}      product = signed {("*" | "/") signed}
    signed = {"+" | "-"} part                part = (number | "(" sum ")") ["%"]
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.language import Words

_WORDS = Words.beside(__file__)
LONGEST = 100
"""Maximum length of an answer, and so the maximum nesting of brackets."""
_LARGEST_EXPONENT = 400
_TOKEN = re.compile(
    r"\s*((?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?(?:e[+-]?\d+)?"
    r"|\.\d+(?:e[+-]?\d+)?|[-+*/()%]|\S)",
    re.ASCII | re.IGNORECASE,
)
_SIGNS = str.maketrans({"\u2212": "-", "\u00d7": "*", "\u00b7": "*", "\u00f7": "/", ":": "/"})


def read_number(given: object, unit: str = "") -> float:
    """The value of a student's input.

    Args:
        given: a number or its text.
        unit: unit of the question, such as "Ψ in a step"; after the number it is ignored.

    Raises:
        ConfigError: it is not a number.
    """
    text = str(given).strip()
    for name in (unit, unit.partition(" ")[0]):
        text = text.removesuffix(name)
    try:
        is_short = len(text) <= LONGEST
        value = float(_Sum(text.translate(_SIGNS)).value()) if is_short else math.nan
    except (ValueError, ArithmeticError):
        value = math.nan
    if not math.isfinite(value):
        raise ConfigError(_WORDS("feedback.no_number", given=repr(text[:40])))
    return value


class _Sum:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = [found[1] for found in _TOKEN.finditer(text)]
        self._at = 0

    def value(self) -> Fraction:
        """All of it.

        Raises:
            ValueError: it is not a sum.
            ArithmeticError: it divides by zero.
        """
        value = self._sum()
        if self._next:
            raise ValueError(self._next)
        return value

    @property
    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        """The next token, if it is one of these."""
        found = self._next if self._next in wanted else ""
        self._at += bool(found)
        return found

    def _sum(self) -> Fraction:
        value = self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while sign := self._take("*", "/"):
            other = self._signed()
            value = value * other if sign == "*" else value / other
        return value

    def _signed(self) -> Fraction:
        sign = 1
        while found := self._take("+", "-"):
            sign = -sign if found == "-" else sign
        return sign * self._part()

    def _part(self) -> Fraction:
        if self._take("("):
            value = self._sum()
            if not self._take(")"):
                raise ValueError(self._next)
        else:
            value = _literal(self._next)
            self._at += 1
        return value / 100 if self._take("%") else value


def _literal(token: str) -> Fraction:
    """A number, exactly; one that no float could hold is none, before it takes memory."""
    _, _, exponent = token.lower().partition("e")
    if exponent and abs(int(exponent)) > _LARGEST_EXPONENT:
        raise ValueError(token)
    return Fraction(token.replace(",", ""))
