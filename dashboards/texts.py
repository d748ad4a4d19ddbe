"""The texts of pages, in separate files: a second language is a second set of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zerosim.base.language import Words

_FOLDER = Path(__file__).parent / "words"
SITE = Words(_FOLDER / "site.toml")
"""The texts of pages without a file of their own."""


def words(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The words of some pages in the current language, by the file that they are in."""
    return Words(_FOLDER / f"{name}.toml").table


def tied(text: str) -> str:
    """A sentence without line breaks between a sign and its number, or a number and its unit."""
    signed = re.sub(r"([+-]) (?=[\d\N{GREEK CAPITAL LETTER PSI}])", "\\1\N{NO-BREAK SPACE}", text)
    return re.sub(
        r"(?<=\d) (?=(?:\N{GREEK CAPITAL LETTER PSI}|[kMGT]?B)\b)", "\N{NO-BREAK SPACE}", signed
    )
