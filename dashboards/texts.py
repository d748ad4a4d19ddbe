"""What pages say themselves, in files of their own: a second language is a second set of them.

Imports the standard library.
"""

from __future__ import annotations

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
