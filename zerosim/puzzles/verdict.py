"""What is said of a program: the reason why it is wrong, what it took, what became of it.

Imports its siblings and zerosim's L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.events import Event, Op
from zerosim.puzzles.puzzle import Puzzle


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a program is wrong.

    Attributes:
        check: what was looked at: loads, messages, ends, calls, contents, values, crossing,
            sent, rounds, num_calls, held, turns, overlap.
        sentence: all of it.
        event: the first step that is illegal; None if no step is.
        line: of the program, "ring.py:14"; "" if it is not known.
    """

    check: str
    sentence: str
    event: Event | None = None
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the program took beside the bound; the same unit in both.

    Attributes:
        what: bytes sent, bytes held, rounds, calls that overlap.
        bound: computed by theory.
    """

    what: str
    found: int
    bound: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What becomes of a program.

    Attributes:
        reason: None if it passes.
        passed: what was looked at and holds, a sentence each.
        scores: of what has a bound, as far as it was looked at.
        trace: its folder; None if there is none.
        step: of its replay, from 1, that is the first illegal one; None if no step is.
    """

    puzzle: Puzzle
    file: Path
    reason: Reason | None
    passed: tuple[str, ...]
    scores: tuple[Score, ...]
    trace: Path | None
    step: int | None = None

    @property
    def holds(self) -> bool:
        """Whether it passes."""
        return self.reason is None

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        reason = self.reason
        return {
            "puzzle": self.puzzle.name,
            "file": str(self.file),
            "passes": self.holds,
            "check": None if reason is None else reason.check,
            "reason": None if reason is None else reason.sentence,
            "line": None if reason is None else reason.line,
            "passed": list(self.passed),
            "scores": {one.what: {"found": one.found, "bound": one.bound} for one in self.scores},
            "step": self.step,
            "trace": None if self.trace is None else str(self.trace),
        }


def reason_at(check: str, sentence: str, event: Event) -> Reason:
    """The reason that a step is, with the line of the program that did it."""
    return Reason(check=check, sentence=sentence, event=event, line=event.source)


def buffer_words(event: Event) -> str:
    """What a call was given, "64 elements of float32"."""
    return f"{event.elements:,} elements of {event.dtype}"


def call_words(event: Event) -> str:
    """Which call it is, and where, "the send to rank 1 at ring.py:14"."""
    where = {Op.SEND: " to rank ", Op.RECEIVE: " from rank "}.get(event.op or Op.UNKNOWN, "")
    peer = f"{where}{event.peers[0]}" if where and event.peers else ""
    name = f"the {event.op}{peer}" if event.op is not None else f"the computation of {event.unit}"
    return f"{name} at {event.source}" if event.source else name
