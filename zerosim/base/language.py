"""The language of texts for people, and the files that contain them.

Texts for people are in TOML files beside the code that uses them, in English. A second language is
a file of the same name in a folder named after the language: `verify/words.toml` and
`verify/zh/words.toml`. Both have the same keys and the same braces; numbers and formulas come from
the same expressions. `tests/test_language.py` checks this.

The command line or the environment sets the language of a process; the reader chooses that of a
page (`speaking`). Texts are therefore built on demand, and cached per language
(`in_each_language`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from zerosim.base.errors import ConfigError

VARIABLE = "ZEROSIM_LANGUAGE"
"""The environment variable for the language, if the command line does not set it."""
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_MARKS = "\u3001\u3002\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f"
"""Characters of Chinese, and the marks between its sentences and their parts."""
_LATIN = "A-Za-z0-9\u0370-\u03ff"
_SPACE = re.compile(f"(?<=[{_HAN}])(?=[{_LATIN}])|(?<=[{_LATIN}%])(?=[{_HAN}])")
_NO_SPACE = re.compile(
    f"(?<=[{_HAN}{_MARKS}])[ \n](?=[{_HAN}{_MARKS}])"
    f"|(?<=[{_MARKS}])[ \n](?=[{_LATIN}])|(?<=[{_LATIN}])[ \n](?=[{_MARKS}])"
)
_Given = ParamSpec("_Given")
_Said = TypeVar("_Said")


class Language(StrEnum):
    """The supported languages, named as in HTML's `lang`."""

    ENGLISH = "en"
    CHINESE = "zh"


_spoken: ContextVar[Language | None] = ContextVar("language", default=None)
_usual = [Language.ENGLISH]
"""The language of the process, including threads that it starts."""


def spoken() -> Language:
    """The current language of this thread or task."""
    return _spoken.get() or _usual[0]


def chosen(given: str | None = None) -> Language:
    """The language of a name; without a name, that of the environment.

    Raises:
        ConfigError: there is no such language.
    """
    name = given if given is not None else os.environ.get(VARIABLE) or Language.ENGLISH
    try:
        return Language(name)
    except ValueError:
        what = VARIABLE if given is None else "language"
        known = ", ".join(Language)
        raise ConfigError(f"{what} is {name[:40]!r}: expected one of {known}") from None


def speak(language: Language) -> None:
    """Set the language of this process."""
    _usual[0] = language


@contextmanager
def speaking(language: Language) -> Iterator[None]:
    """Use this language for texts within the context, regardless of the process's language."""
    token = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(token)


def sibling(path: Path, language: Language | None = None) -> Path:
    """The path of a file of texts in a language, by default the current one."""
    language = spoken() if language is None else language
    return path if language is Language.ENGLISH else path.parent / language / path.name


@dataclass(frozen=True, slots=True)
class Words:
    """The texts of a module, in the language that is current at each call.

    Attributes:
        path: path of the English file.
    """

    path: Path

    @classmethod
    def beside(cls, file: str, name: str = "words") -> Words:
        """The words beside a module, which passes its `__file__`."""
        return cls(Path(file).with_name(f"{name}.toml"))

    @property
    def table(self) -> Mapping[str, Any]:
        """All texts."""
        return _read(sibling(self.path))

    def __call__(self, key: str, **values: object) -> str:
        """One text, by its tables and name with dots between, with its braces filled in.

        Raises:
            KeyError: there is no such text, or a value for one of its braces is missing.
        """
        return fill(str(self._found(key)), values)

    def each(self, key: str, **values: object) -> tuple[str, ...]:
        """Several texts under one key, in the current language."""
        return tuple(fill(str(one), values) for one in self._found(key))

    def _found(self, key: str) -> Any:
        found: Any = self.table
        for part in key.split("."):
            found = found[part]
        return found


def term(name: str) -> str:
    """The display name of something in a trace: a phase, a role, an operation, a link.

    Data keep the English name; this one is for display. A name without an entry is returned
    unchanged.
    """
    return str(_TERMS.table.get(str(name), name))


def terms() -> Mapping[str, str]:
    """All names with an entry, for pages that are drawn in the browser."""
    return _TERMS.table


def fill(text: str, fields: Mapping[str, object]) -> str:
    """A text with its braces filled in."""
    return typeset(text.format_map(fields))


def begun(text: str) -> str:
    """A text with a capital at its beginning, if the language has capitals."""
    return text if spoken() is Language.CHINESE else f"{text[:1].upper()}{text[1:]}"


def listed(items: Sequence[str], last: str = "and") -> str:
    """Items in a sentence: "a, b and c"; `last` is "and", "or" or "and_does"."""
    *first, end = items or [""]
    comma = LISTS.table["comma"]
    return typeset(f"{comma.join(first)}{LISTS.table[last]}{end}" if first else end)


def joined(sentences: Iterable[str]) -> str:
    """The nonempty sentences, one after the other."""
    return str(LISTS.table["sentence"]).join(filter(None, sentences))


def clauses(items: Iterable[str]) -> str:
    """Parts of a sentence that could be sentences: "a; b"."""
    return str(LISTS.table["clause"]).join(items)


def enumerated(items: Iterable[str]) -> str:
    """Items in a list: "a, b, c"."""
    return typeset(str(LISTS.table["comma"]).join(items))


def after_another(items: Iterable[str]) -> str:
    """Items in order: "a, then b, then c"."""
    return typeset(str(LISTS.table["then"]).join(items))


def typeset(text: str) -> str:
    """A text with its placeholders filled in, with the spacing of its language.

    In Chinese, a space separates a character from a Latin letter or digit, and nothing else.
    """
    if spoken() is not Language.CHINESE:
        return text
    return _NO_SPACE.sub("", _SPACE.sub(" ", text))


def in_each_language(say: Callable[_Given, _Said]) -> Callable[_Given, _Said]:
    """Cache the results of a function like `functools.cache`, separately for each language."""
    kept: Callable[..., _Said] = cache(lambda _, *args, **options: say(*args, **options))

    @wraps(say)
    def said(*args: _Given.args, **options: _Given.kwargs) -> _Said:
        return kept(spoken(), *args, **options)

    return said


def overlaid(path: Path) -> dict[str, Any]:
    """The contents of a data file, with its texts from the sibling file in the current language.

    The sibling contains only texts: numbers and expressions come from the English file. A file
    without a sibling is used in English.

    Raises:
        KeyError: the sibling has an entry that the English file lacks.
    """
    plain = dict(_read(path))
    other = sibling(path)
    return _laid(plain, _read(other)) if other != path and other.exists() else plain


def _laid(under: Any, over: Any) -> Any:
    if isinstance(under, dict):
        unknown = over.keys() - under.keys()
        if unknown:
            raise KeyError(min(unknown))
        return {
            name: _laid(one, over[name]) if name in over else one for name, one in under.items()
        }
    if isinstance(under, list):
        if len(under) != len(over):
            raise KeyError(f"{len(over)} entries in place of {len(under)}")
        return [_laid(one, other) for one, other in zip(under, over, strict=True)]
    return over


@cache
def _read(path: Path) -> Mapping[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


_TERMS = Words.beside(__file__, "terms")
LISTS = Words.beside(__file__, "lists")
"""How items are joined in a sentence, and counted."""
