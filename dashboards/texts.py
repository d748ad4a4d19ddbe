"""What pages say themselves, in files of their own: a second language is a second set of them.

Imports the standard library.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "words"


@cache
def words(name: str) -> Mapping[str, Mapping[str, Any]]:
    """The words of some pages, by the file that they are in."""
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def tied(text: str) -> str:
    """A sentence of which no line ends between a sign and its number, or that and its unit."""
    signed = re.sub(r"([+-]) (?=\d)", "\\1\N{NO-BREAK SPACE}", text)
    return re.sub(
        r"(?<=\d) (?=(?:\N{GREEK CAPITAL LETTER PSI}|[kMGT]?B)\b)", "\N{NO-BREAK SPACE}", signed
    )
