"""How what traces and tables name is shown: a phase, a role, a tier, a ledger, a purpose, a cause.

The names themselves are the schema's and never change with the language (`names.toml`).
Imports zerosim's language.
"""

from __future__ import annotations

from collections.abc import Mapping

from zerosim.language import Words

_NAMES = Words.beside(__file__, "names")


def named(word: str) -> str:
    """A name as it is shown in the language that is spoken; as it is, if it is none of ours."""
    return str(_NAMES.table.get(word, word))


def shown_names() -> Mapping[str, str]:
    """All of them, for what draws elsewhere."""
    return _NAMES.table
