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
