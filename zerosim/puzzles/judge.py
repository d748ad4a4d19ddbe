"""Compares a promise with the trace of a program's run.

The checks are in the order of causes: a program that hangs has no results, and a wrong message
causes wrong results. The first that fails is the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from zerosim.puzzles import bounded, contents, endings
from zerosim.puzzles.evidence import RunEvidence
from zerosim.puzzles.moments import step_of
from zerosim.puzzles.promised import check_words, is_asked
from zerosim.puzzles.rank import Limits
from zerosim.puzzles.running import Ran, Submission, run_submissions
from zerosim.puzzles.verdict import CheckOutcome, CheckResult, FailedCheck, PuzzleVerdict, Score
from zerosim.record.judged import write_judged


@dataclass(frozen=True, slots=True)
class _Check:
    """One check.

    Attributes:
        name: as in `promised`.
        look: yields scores, and reasons why it fails.
    """

    name: str
    look: Callable[[RunEvidence], Iterator[FailedCheck | Score]]


_CHECKS = (
    _Check("loads", endings.loads),
    _Check("messages", endings.fit_together),
    _Check("ends", endings.come_to_an_end),
    _Check("calls", contents.calls),
    _Check("contents", contents.contents),
    _Check("values", contents.values),
    _Check("crossing", bounded.crossing),
    _Check("sent", bounded.sent),
    _Check("rounds", bounded.rounds),
    _Check("num_calls", bounded.num_calls),
    _Check("held", bounded.held),
    _Check("turns", bounded.turns),
    _Check("overlap", bounded.overlap),
)


def judge(submission: Submission, limits: Limits | None = None) -> PuzzleVerdict:
    """Run and check a program; errors are those of `run_submissions`."""
    return next(judge_all([submission], limits))


def judge_all(
    submissions: Sequence[Submission], limits: Limits | None = None
) -> Iterator[PuzzleVerdict]:
    """The same for several programs, one after another on the same ranks while they are alive."""
    for ran in run_submissions(submissions, limits):
        yield _verdict(ran)


def _verdict(ran: Ran) -> PuzzleVerdict:
    seen = RunEvidence(ran)
    rows: list[CheckResult] = []
    scores: list[Score] = []
    reason = None
    for check in _CHECKS:
        if not is_asked(check.name, seen.promise):
            continue
        outcome = CheckOutcome.NOT_LOOKED_AT
        if reason is None:
            reason = _look(check, seen, scores)
            outcome = CheckOutcome.HOLDS if reason is None else CheckOutcome.FAILS
        rows.append(CheckResult(check.name, check_words(check.name, seen.promise), outcome))
    submission = ran.submission
    return PuzzleVerdict(
        puzzle=submission.puzzle,
        file=submission.file,
        reason=reason,
        rows=tuple(rows),
        scores=tuple(scores),
        trace=None if seen.trace is None else submission.folder,
        step=_mark(seen, reason),
    )


def _look(check: _Check, seen: RunEvidence, scores: list[Score]) -> FailedCheck | None:
    """The first reason of a check; its scores are added to the others."""
    for said in check.look(seen):
        if isinstance(said, FailedCheck):
            return said
        scores.append(said)
    return None


def _mark(seen: RunEvidence, reason: FailedCheck | None) -> int | None:
    """Write the verdict beside the trace; with the illegal step in Replay, if any."""
    event = None if reason is None else reason.event
    if seen.trace is None:
        return None
    judged = contents.told(seen)
    if reason is not None and event is not None:
        judged = replace(judged, rank=event.rank, event=event.id, sentence=reason.sentence)
    write_judged(seen.ran.submission.folder, judged)
    return None if event is None else step_of(seen.trace, event)
