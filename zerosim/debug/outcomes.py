"""How a step ends, and where ranks stop that run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why the ranks stopped, or none of them goes on."""

    REACHED = "reached"
    """They stand where they were to go."""
    BREAKPOINT = "breakpoint"
    WAITS = "waits"
    """The one rank that was to go waits for others, or for something else."""
    PAUSED = "paused"
    """Somebody asked for it."""
    LEFT = "left"
    """A rank is gone that did not end in order: all others were let go."""
    ENDED = "ended"
    """The program is over."""
    DETACHED = "detached"
    """Nobody holds the ranks any more."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended.

    Attributes:
        said: what there is to say of it beside where the ranks are.
    """

    why: Why
    said: str = ""

    @property
    def is_last(self) -> bool:
        """Whether there is nothing left to hold."""
        return self.why in (Why.ENDED, Why.LEFT, Why.DETACHED)


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where ranks stop that run: a condition as `zerosim.trace.conditions` reads it."""

    number: int
    text: str

    def to_plain(self) -> dict[str, object]:
        """As a rank reads it."""
        return {"number": self.number, "text": self.text}


def of_ranks(ranks: Sequence[int]) -> str:
    """Some ranks: "rank 2", "ranks 0 to 3"."""
    unique = sorted(set(ranks))
    if len(unique) == 1:
        return f"rank {unique[0]}"
    if len(unique) > 2 and unique[-1] - unique[0] == len(unique) - 1:
        return f"ranks {unique[0]} to {unique[-1]}"
    return f"ranks {', '.join(map(str, unique))}"
