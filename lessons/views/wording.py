"""What figures say, in the language that is spoken."""

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
    """How a colour is called in a legend: a part of a bar, what a box is."""
    return str(_WORDS.table["parts"].get(name, term(name)))
