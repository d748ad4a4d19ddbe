"""The text about a student's program, in the current language.

The words are in `words.toml`.
"""

from __future__ import annotations

import re

from zerosim.base.language import Words

words = Words.beside(__file__)
_NUMBERED = re.compile(r"(.*\D) (\d+)")


def result_name(name: str) -> str:
    """A result in words, "layer 3"; a name without words is one of the program's."""
    found = _NUMBERED.fullmatch(name)
    plain, number = (name, "") if found is None else (found[1], found[2])
    key = plain.replace(" ", "_")
    if key not in words.table["values"]["names"]:
        return name
    return words(f"values.names.{key}", number=number)


_PIECE = re.compile(r"piece (\d+) of rank(s?) (.+)")


def content_name(name: str) -> str:
    """A message's contents in words: a piece, or a sum of it; "" if it is neither."""
    found = _PIECE.fullmatch(name)
    if found is None:
        return ""
    if not found[2]:
        return words("values.names.piece", number=found[1])
    return words("contents.part", piece=found[1], ranks=found[3])
