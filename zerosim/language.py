"""The language that a person is spoken to in, and where the words for it are.

What is said stands in TOML files beside the code that says it, in English. A second language is a
file of the same name in a folder of the language's name beside it: `verify/words.toml` and
`verify/zh/words.toml`. Both have the same keys and the same braces; numbers and formulas come from
the same expressions. `tests/test_language.py` holds that. Imports the standard library.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any


class Language(StrEnum):
    """What zerosim speaks, as HTML's `lang` names it."""

    ENGLISH = "en"
    CHINESE = "zh"


_spoken: ContextVar[Language] = ContextVar("language", default=Language.ENGLISH)


def spoken() -> Language:
    """The language of what is said now, by this thread or task."""
    return _spoken.get()


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Say what is said within in this language."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def sibling(path: Path, language: Language | None = None) -> Path:
    """Where a file of words is in a language; that which is spoken if none is named."""
    language = spoken() if language is None else language
    return path if language is Language.ENGLISH else path.parent / language / path.name


@dataclass(frozen=True, slots=True)
class Words:
    """What some code says, in the language that is spoken when it is asked.

    Attributes:
        path: of the English file.
    """

    path: Path

    @classmethod
    def beside(cls, file: str, name: str = "words") -> Words:
        """The words that stand beside a module, which passes its `__file__`."""
        return cls(Path(file).with_name(f"{name}.toml"))

    @property
    def table(self) -> Mapping[str, Any]:
        """All of them."""
        return _read(sibling(self.path))

    def __call__(self, key: str, **values: object) -> str:
        """One text, by its tables and name with dots between, with its braces filled in.

        Raises:
            KeyError: there is no such text, or it has a brace that was not given.
        """
        found: Any = self.table
        for part in key.split("."):
            found = found[part]
        return str(found).format(**values)


@cache
def _read(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
