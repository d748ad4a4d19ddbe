"""The outcome of a step, and breakpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Why(StrEnum):
    """Why the ranks stopped."""

    REACHED = "reached"
    """They reached their goal."""
    BREAKPOINT = "breakpoint"
    WAITS = "waits"
    """The one released rank waits for others, or for something else."""
    PAUSED = "paused"
    """The user paused them."""
    LEFT = "left"
    """A rank ended abnormally: all others were released."""
    ENDED = "ended"
    """The program has ended."""
    DETACHED = "detached"
    """The debugger detached."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step.

    Attributes:
        said: a message in addition to the positions of the ranks.
    """

    why: Why
    said: str = ""

    @property
    def is_last(self) -> bool:
        """Whether no ranks are left to control."""
        return self.why in (Why.ENDED, Why.LEFT, Why.DETACHED)


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A breakpoint: a condition in the syntax of `zerosim.trace.conditions`."""

    number: int
    text: str

    def to_plain(self) -> dict[str, object]:
        """The breakpoint in the form that a rank reads."""
        return {"number": self.number, "text": self.text}


def of_ranks(ranks: Sequence[int]) -> str:
    """Some ranks: "rank 2", "ranks 0 to 3"."""
    unique = sorted(set(ranks))
    if len(unique) == 1:
        return f"rank {unique[0]}"
    if len(unique) > 2 and unique[-1] - unique[0] == len(unique) - 1:
        return f"ranks {unique[0]} to {unique[-1]}"
    return f"ranks {', '.join(map(str, unique))}"
