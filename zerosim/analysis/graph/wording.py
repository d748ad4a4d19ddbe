"""The words of the event graph, in the current language."""

from __future__ import annotations

from zerosim.base.language import Words

said = Words.beside(__file__)
"""A label, a reason, a check's sentence by its key in `words.toml`."""


def counted(what: str, number: int) -> str:
    """A number of things: "1 collective", "4 collectives"."""
    one, several = said.each(f"checks.{what}", number=f"{number:,}")
    return one if number == 1 else several
