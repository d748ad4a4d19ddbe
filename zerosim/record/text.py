"""Words for messages: always one line, ranks named briefly."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from zerosim.base.language import LISTS, enumerated

_LONGEST = 600
_MOST_NAMED = 4


def one_line(text: str) -> str:
    """The text on one line, with unprintable characters escaped, and truncated if too long.

    Messages quote file names and the contents of damaged files, which can contain anything.
    """
    clean = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 4]} ..."


def as_text(name: str) -> str:
    """A name that can be encoded, even if a file's name has bytes that are not valid text."""
    return os.fsencode(name).decode("utf-8", "replace")


def name_iterations(numbers: Sequence[int], to: str = " to ") -> str:
    """Iterations in words: "0 to 9", or "0, 10, ..., 90" with gaps.

    Args:
        numbers: ascending, at least one.
        to: the word between first and last.
    """
    first, last = numbers[0], numbers[-1]
    if last - first == len(numbers) - 1:
        return f"{first}{to}{last}"
    if len(numbers) <= _MOST_NAMED:
        return ", ".join(map(str, numbers))
    return f"{first}, {numbers[1]}, ..., {last}"


def runs(ranks: Iterable[int]) -> list[tuple[int, int]]:
    """Consecutive ranks as (first, last), in ascending order."""
    found: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if found and rank == found[-1][1] + 1:
            found[-1] = (found[-1][0], rank)
        else:
            found.append((rank, rank))
    return found


def name_runs(pieces: list[tuple[int, int]]) -> str:
    """Runs of ranks in words: "rank 3", "ranks 0-2, 5"."""
    words = enumerated(str(a) if a == b else f"{a}-{b}" for a, b in pieces)
    one = len(pieces) == 1 and pieces[0][0] == pieces[0][1]
    return LISTS("rank" if one else "ranks", ranks=words)


def name_ranks(ranks: Iterable[int]) -> str:
    """Ranks in words: "rank 3", "ranks 0-2, 5"."""
    return name_runs(runs(ranks))
