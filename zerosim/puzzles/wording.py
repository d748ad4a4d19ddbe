"""What is said of a student's program, in the language that is spoken.

The words stand in `words.toml`.
"""

from __future__ import annotations

import re

from zerosim.base.language import Words

words = Words.beside(__file__)
_NUMBERED = re.compile(r"(.*\D) (\d+)")


def result_name(name: str) -> str:
    """What a case calls a result, "layer 3"; a name that has no words is one of the program's."""
    found = _NUMBERED.fullmatch(name)
    plain, number = (name, "") if found is None else (found[1], found[2])
    key = plain.replace(" ", "_")
    if key not in words.table["values"]["names"]:
        return name
    return words(f"values.names.{key}", number=number)


_PIECE = re.compile(r"piece (\d+) of rank(s?) (.+)")


def content_name(name: str) -> str:
    """What a case calls a message's content: a piece, or a sum of it; "" if it is neither."""
    found = _PIECE.fullmatch(name)
    if found is None:
        return ""
    if not found[2]:
        return words("values.names.piece", number=found[1])
    return words("contents.part", piece=found[1], ranks=found[3])
