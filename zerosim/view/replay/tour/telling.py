"""How to fill in a sentence about ranks: which ranks, and how much."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from zerosim.base import language
from zerosim.base.language import Words, begun
from zerosim.base.quantities import PSI, format_bytes, format_decimal
from zerosim.record.text import name_ranks
from zerosim.view.replay.moments import Document
from zerosim.view.replay.names import name_backend
from zerosim.view.replay.step_sentences import SHORT_NS

_ENDS = ".!?\u3002\uff01\uff1f"
_LEAST_PSI = Fraction(1, 100)
_SECOND_NS = 10**9


_WORDS = Words.beside(__file__, "tour")


def texts() -> Mapping[str, Any]:
    """All texts of `tour.toml` in the current language."""
    return _WORDS.table


def fill(*path: str, **fields: object) -> str:
    """A text by its path, filled in."""
    here: Any = texts()
    for name in path:
        here = here[name]
    return language.fill(str(here), fields)


def verbs(*, is_one: bool) -> dict[str, str]:
    """Each verb in the singular or the plural."""
    return {verb: forms[0 if is_one else 1] for verb, forms in texts()["verbs"].items()}


def sentence(text: str) -> str:
    """A text with an end."""
    return text if not text or text[-1] in _ENDS else f"{text}{texts()['end']}"


def format_time(ns: int) -> str:
    """Write a time with three digits: `12.3 µs`, `12.3 ms`, `1.34 s`."""
    if ns < SHORT_NS:
        return f"{ns / 1e3:.1f} µs"
    return f"{ns / 1e6:.1f} ms" if ns < _SECOND_NS else f"{ns / _SECOND_NS:.2f} s"


def rows(numbers: Sequence[int], width: int) -> list[tuple[int, ...]]:
    """Numbers that belong together, in order."""
    return [tuple(numbers[at : at + width]) for at in range(0, len(numbers), width)]


def summed(calls: Sequence[dict[str, Any]], ledger: str) -> list[int]:
    """A ledger of some collectives, by rank; empty if a number is unknown."""
    if any(None in call[ledger] for call in calls):
        return []
    return [sum(counts) for counts in zip(*(call[ledger] for call in calls), strict=True)]


class Telling:
    """Describes the actions of a document's ranks."""

    def __init__(self, document: Document) -> None:
        """Prepare."""
        self._ranks: list[int] = document["ranks"]
        self._backend = name_backend(str(document["run"]["backend"]))
        self._psi_bytes: int = document["traffic"]["psi_bytes"]

    def who(
        self,
        sizes: Sequence[int],
        say: Callable[[Mapping[str, str], str], str],
        written: Callable[[int], str] = format_bytes,
    ) -> str:
        """A sentence about the ranks with a nonzero number; "" if there are none.

        Args:
            sizes: by rank of the document.
            say: makes the sentence from the ranks, the verb forms and the amount.
        """
        own = {rank: size for rank, size in zip(self._ranks, sizes, strict=True) if size}
        if not own:
            return ""
        said, is_all = texts()["who"], len(own) == len(self._ranks)
        least, most = written(min(own.values())), written(max(own.values()))
        name = name_ranks(own)
        if is_all:
            name = said["one" if len(own) == 1 else "each" if least == most else "all"]
        forms = verbs(is_one=len(own) == 1 or name == said["each"])
        named = {"who": name, "Who": begun(name)}
        return say(named | forms, least if least == most else fill("range", least=least, most=most))

    def sent(self, part: str, which: str, sizes: Sequence[int], **fields: object) -> str:
        """A sentence about the ranks' traffic, which may name the backend; "" if unknown."""
        if not sizes:
            return ""
        return self.who(
            sizes,
            lambda who, size: fill(part, which, **who, sent=size, backend=self._backend, **fields),
            self.in_psi if part != "beat" else format_bytes,
        )

    def psi(self, size: int | Fraction) -> str:
        """The amount as a multiple of Psi; bytes if Psi is unknown or the multiple too small."""
        times = Fraction(size) / self._psi_bytes if self._psi_bytes else Fraction(0)
        return f"{format_decimal(times, 2)} {PSI}" if times >= _LEAST_PSI else format_bytes(size)

    def in_psi(self, size: int | Fraction) -> str:
        """Bytes, and the same as a multiple of Psi."""
        size_bytes, times = format_bytes(size), self.psi(size)
        return size_bytes if times == size_bytes else fill("in_psi", size=size_bytes, times=times)
