"""What was promised held against the trace of a program's run.

The checks stand in the order in which one thing explains another: a program that hangs has no
values, wrong values come of a wrong message. The first that fails is the reason.
Imports record and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zerosim.puzzles import bounded, contents, endings
from zerosim.puzzles.evidence import Evidence
from zerosim.puzzles.moments import step_of
from zerosim.puzzles.puzzle import Promise
from zerosim.puzzles.rank import Limits
from zerosim.puzzles.running import Ran, Submission, run_submissions
from zerosim.puzzles.verdict import Reason, Score, Verdict
from zerosim.record.judged import Judged, write_judged


@dataclass(frozen=True, slots=True)
class _Check:
    """One thing that is looked at.

    Attributes:
        words: what holds if it passes.
        promised: the field of a promise that asks for it; "" for what every puzzle asks for.
        look: says scores, and reasons why it does not hold.
    """

    words: str
    promised: str
    look: Callable[[Evidence], Iterator[Reason | Score]]


_CHECKS = (
    _Check("every rank loads it", "", endings.loads),
    _Check("sends and receives fit together", "", endings.fit_together),
    _Check("every rank comes to its end", "", endings.come_to_an_end),
    _Check("it calls what the task allows", "calls", contents.calls),
    _Check("each message holds what it should", "contents", contents.contents),
    _Check("the results are right", "", contents.values),
    _Check("it sends no more to other nodes than the bound", "crossing", bounded.crossing),
    _Check("it sends no more than the bound", "sent", bounded.sent),
    _Check("it takes no more rounds than the bound", "rounds", bounded.rounds),
    _Check("it makes no more calls than the bound", "num_calls", bounded.num_calls),
    _Check("it holds no more memory than the bound", "held", bounded.held),
    _Check("no stage stands idle for longer than it has to", "turns", bounded.turns),
    _Check("communication runs beside computation", "overlap", bounded.overlap),
)


def judge(submission: Submission, limits: Limits | None = None) -> Verdict:
    """Run a program and judge it; errors are those of `run_submissions`."""
    return next(judge_all([submission], limits))


def judge_all(submissions: Sequence[Submission], limits: Limits | None = None) -> Iterator[Verdict]:
    """Likewise of several, one after another on the same ranks as long as these live."""
    for ran in run_submissions(submissions, limits):
        yield _verdict(ran)


def _verdict(ran: Ran) -> Verdict:
    seen = Evidence(ran)
    passed: list[str] = []
    scores: list[Score] = []
    reason = None
    for check in _CHECKS:
        reason = _look(check, seen, scores)
        if reason is not None:
            break
        if not check.promised or getattr(seen.promise, check.promised):
            passed.append(_words(check, seen.promise))
    submission = ran.submission
    return Verdict(
        puzzle=submission.puzzle,
        file=submission.file,
        reason=reason,
        passed=tuple(passed),
        scores=tuple(scores),
        trace=None if seen.trace is None else submission.folder,
        step=_mark(seen, reason),
    )


def _look(check: _Check, seen: Evidence, scores: list[Score]) -> Reason | None:
    """The first reason of a check; its scores are added to the others."""
    for said in check.look(seen):
        if isinstance(said, Reason):
            return said
        scores.append(said)
    return None


def _words(check: _Check, promise: Promise) -> str:
    return check.words + ", bit by bit" * (check.look is contents.values and promise.exact)


def _mark(seen: Evidence, reason: Reason | None) -> int | None:
    """Say beside the trace which step is illegal; its step in Replay, if it has one."""
    event = None if reason is None else reason.event
    if seen.trace is None or reason is None or event is None:
        return None
    step = step_of(seen.trace, event)
    write_judged(seen.ran.submission.folder, Judged(event.rank, event.id, reason.sentence))
    return step
