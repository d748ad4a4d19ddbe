"""The words of the commands' own tables, in the current language."""

from __future__ import annotations

from zerosim.base.language import Words

said = Words.beside(__file__)
"""A title, a column, a line by its key in `words.toml`."""


def counted(what: str, number: int) -> str:
    """A number of things: "1 rank", "4 ranks"."""
    one, several = said.each(f"common.{what}", number=number)
    return one if number == 1 else several
