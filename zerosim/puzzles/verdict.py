"""The verdict on a program: the reason for a failure, its scores, its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from zerosim.base.language import term
from zerosim.puzzles.promised import LEAST
from zerosim.puzzles.puzzle import Puzzle
from zerosim.puzzles.wording import words
from zerosim.schema.events import Event, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCheck:
    """Why a program is wrong.

    Attributes:
        check: the check: loads, messages, ends, calls, contents, values, crossing, sent, rounds,
            num_calls, held, turns, overlap.
        sentence: the whole reason.
        event: the first illegal step; None if there is none.
        line: the program's line, "ring.py:14"; "" if unknown.
        found, expected: the two compared values, if they are not a score.
    """

    check: str
    sentence: str
    event: Event | None = None
    line: str = ""
    found: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The cost of the program and its bound, in the same unit.

    Attributes:
        check: the check: sent, held, rounds ...
        bound: computed by theory: a maximum, for overlap a minimum.
    """

    check: str
    found: int
    bound: int

    @property
    def what(self) -> str:
        """Bytes sent, bytes held, rounds, calls that overlap."""
        return words(f"scores.{self.check}")


class CheckOutcome(StrEnum):
    """The outcome of one check."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_LOOKED_AT = "not looked at"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check of a puzzle: its requirement in a sentence, and its outcome."""

    check: str
    words: str
    outcome: CheckOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class PuzzleVerdict:
    """The verdict on a program.

    Attributes:
        reason: None if it passes.
        rows: every check of the puzzle, in order.
        scores: scores of the checks with bounds, as far as they ran.
        trace: its folder; None if there is none.
        step: the first illegal step of its replay, from 1; None if there is none.
    """

    puzzle: Puzzle
    file: Path
    reason: FailedCheck | None
    rows: tuple[CheckResult, ...]
    scores: tuple[Score, ...]
    trace: Path | None
    step: int | None = None

    @property
    def holds(self) -> bool:
        """Whether it passes."""
        return self.reason is None

    @property
    def iteration(self) -> int | None:
        """The event of the first illegal step; None if there is none."""
        event = None if self.reason is None else self.reason.event
        return None if event is None or self.step is None else event.iteration

    @property
    def passed(self) -> tuple[str, ...]:
        """The properties that were checked and hold, one sentence each."""
        return tuple(one.words for one in self.rows if one.outcome is CheckOutcome.HOLDS)

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
            "checks": [self._plain(one) for one in self.rows],
            "iteration": self.iteration,
            "step": self.step,
            "trace": None if self.trace is None else str(self.trace),
        }

    def _plain(self, row: CheckResult) -> dict[str, Any]:
        """A check with found and expected values: numbers of a score, else words."""
        score = next((one for one in self.scores if one.check == row.check), None)
        reason = self.reason if row.outcome is CheckOutcome.FAILS else None
        given: tuple[int | str, int | str] = ("", "")
        if score is not None:
            given = (score.found, score.bound)
        elif reason is not None:
            given = (reason.found, reason.expected)
        return {
            "check": row.check,
            "words": row.words,
            "outcome": row.outcome.value,
            "found": given[0],
            "expected": given[1],
            "bound": "" if score is None else "least" if row.check in LEAST else "most",
        }


def reason_at(
    check: str, sentence: str, event: Event, found: str = "", expected: str = ""
) -> FailedCheck:
    """The reason why a step is illegal, with the program's line."""
    return FailedCheck(
        check=check,
        sentence=sentence,
        event=event,
        line=event.source,
        found=found,
        expected=expected,
    )


def buffer_words(event: Event) -> str:
    """The input of a call, "64 elements of float32"."""
    return words("calls.buffer", elements=f"{event.elements:,}", dtype=event.dtype)


def call_words(event: Event, *, is_placed: bool = True) -> str:
    """A call, with its line: "the send to rank 1 at ring.py:14"."""
    if event.op is None:
        call = words("calls.compute", unit=event.unit)
    else:
        form = (
            {Op.SEND: "to", Op.RECEIVE: "from"}.get(event.op, "plain") if event.peers else "plain"
        )
        peer = event.peers[0] if event.peers else ""
        call = words(f"calls.{form}", op=term(event.op), peer=peer)
    is_at = is_placed and bool(event.source)
    return words("calls.at", call=call, line=event.source) if is_at else call
