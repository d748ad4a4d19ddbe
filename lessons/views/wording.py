"""The words of figures, in the current language."""

from __future__ import annotations

from zerosim.base.language import Words, term

_WORDS = Words.beside(__file__)


def said(key: str, **values: object) -> str:
    """A title, a label, a law in words."""
    return _WORDS(key, **values)


def each(key: str, **values: object) -> tuple[str, ...]:
    """Several of them, such as the columns of a table."""
    return _WORDS.each(key, **values)


def part_name(name: str) -> str:
    """The name of a colour in a legend: a part of a bar, a kind of box."""
    return str(_WORDS.table["parts"].get(name, term(name)))
