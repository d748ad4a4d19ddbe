"""What runs are called where several stand beside each other.

Imports the standard library and `replay.moments`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zerosim.replay.moments import Document


def titles_of(documents: Sequence[Document]) -> list[str]:
    """What each run is called: its stage, and what else tells it from the others."""
    parts: list[Callable[[Document], str]] = [
        lambda one: one["run"]["stage_name"],
        lambda one: one["run"]["algorithm"],
        lambda one: _count(one["run"]["num_ranks"], "rank"),
        lambda one: one["run"]["dtype"],
        lambda one: _count(one["run"]["accumulate"], "micro-step"),
        lambda one: one["name"],
    ]
    titles = [parts[0](one) for one in documents]
    for part in parts[1:]:
        said = [part(one) for one in documents]
        is_name = part is parts[-1]
        if (is_name and len({*titles}) < len(titles)) or (not is_name and len({*said}) > 1):
            titles = [" · ".join(filter(None, pair)) for pair in zip(titles, said, strict=True)]
    return [
        f"{title[:1].upper()}{title[1:]}" or one["name"]
        for title, one in zip(titles, documents, strict=True)
    ]


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
