"""What was promised held against the trace of a program's run.

The checks stand in the order in which one thing explains another: a program that hangs has no
values, wrong values come of a wrong message. The first that fails is the reason.
Imports record, analysis, diagnosis and its siblings.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from zerosim.analysis.traffic import total, traced_calls
from zerosim.diagnosis import Finding, Seen, Wrong, diagnose
from zerosim.errors import TraceError
from zerosim.events import Event, Op, Phase
from zerosim.puzzles.bounds import bound
from zerosim.puzzles.messages import (
    calls_of,
    first_illegal,
    messages,
    never_waited,
    overlapping,
    rounds,
)
from zerosim.puzzles.moments import step_of
from zerosim.puzzles.puzzle import Puzzle
from zerosim.puzzles.rank import Limits, RankSaid
from zerosim.puzzles.running import Ran, Submission, run_submissions
from zerosim.puzzles.standstill import STOOD_STILL
from zerosim.record import Trace, load
from zerosim.record.judged import Judged, write_judged
from zerosim.record.postmortem import end_words

_LOST = re.compile("[Cc]onnection (closed|reset)|Broken pipe|[Tt]imed out|Timeout")
"""What a rank says that another one has left."""
_OVERTIME = "used more processor time than a program may, and was ended"
_LATE = "the ranks did not come to an end in time"
_DISAGREE = frozenset({Wrong.SIZE, Wrong.DTYPE, Wrong.OTHER_CALL, Wrong.ORDER, Wrong.GROUP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a program is wrong.

    Attributes:
        check: what was looked at: loads, messages, ends, calls, contents, values, sent, rounds,
            num_calls, held, overlap.
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


def judge(submission: Submission, limits: Limits | None = None) -> Verdict:
    """Run a program and judge it; errors are those of `run_submissions`."""
    return next(judge_all([submission], limits))


def judge_all(submissions: Sequence[Submission], limits: Limits | None = None) -> Iterator[Verdict]:
    """Likewise of several, one after another on the same ranks as long as these live."""
    for ran in run_submissions(submissions, limits):
        yield _Judge(ran).verdict()


class _Judge:
    """Looks at one run."""

    def __init__(self, ran: Ran) -> None:
        self._ran = ran
        self._puzzle, self._file, self._folder = (
            ran.submission.puzzle, ran.submission.file, ran.submission.folder
        )  # fmt: skip
        puzzle = self._puzzle
        self._promise = puzzle.promise
        self._said = [said for said in ran.said if said is not None]
        self._sizes = next((said.sizes for said in self._said if said.sizes), {})
        try:
            self._trace: Trace | None = load(self._folder)
        except TraceError:
            self._trace = None
        self._scores: list[Score] = []

    def verdict(self) -> Verdict:
        checks: tuple[tuple[str, Callable[[], Iterator[Reason]]], ...] = (
            ("every rank loads it", self._loads),
            ("sends and receives fit together", self._messages),
            ("every rank comes to its end", self._ends),
            ("it calls what the task allows", self._calls),
            ("each message holds what it should", self._contents),
            ("the results are right" + ", bit by bit" * self._promise.exact, self._values),
            ("it sends no more than the bound", self._sent),
            ("it takes no more rounds than the bound", self._rounds),
            ("it makes no more calls than the bound", self._num_calls),
            ("it holds no more memory than the bound", self._held),
            ("communication runs beside computation", self._overlap),
        )
        passed = []
        reason = None
        for words, check in checks:
            reason = next(check(), None)
            if reason is not None:
                break
            if self._is_promised(check):
                passed.append(words)
        trace, step = None if self._trace is None else self._folder, None
        if trace is not None and reason is not None and reason.event is not None:
            event = reason.event
            step = None if self._trace is None else step_of(self._trace, event)
            write_judged(trace, Judged(event.rank, event.id, reason.sentence))
        return Verdict(
            puzzle=self._puzzle, file=self._file, reason=reason, passed=tuple(passed),
            scores=tuple(self._scores), trace=trace, step=step,
        )  # fmt: skip

    def _is_promised(self, check: Callable[[], Iterator[Reason]]) -> bool:
        name = check.__name__.removeprefix("_")
        return bool(getattr(self._promise, name, True))

    def _loads(self) -> Iterator[Reason]:
        for rank, said in enumerate(self._ran.said):
            if said is not None and not said.is_loaded:
                yield self._raised("loads", rank, said)
            if said is not None and said.error.startswith("NotImplementedError"):
                words = "the body is not filled in yet: it raises NotImplementedError"
                yield Reason(check="loads", sentence=words, line=self._line(said))

    def _messages(self) -> Iterator[Reason]:
        if self._trace is None:
            return
        is_over = all(self._ran.said)
        for rank in self._trace.ranks if is_over and not self._failed() else ():
            unread = never_waited(rank)
            if unread is not None:
                yield _reason(
                    "messages",
                    f"rank {unread.rank} never waits for the message from rank {unread.peers[0]} "
                    f"at {unread.source}: what it reads may not have come yet",
                    unread,
                )
        for message in messages(self._trace):
            send, receive = message.send, message.receive
            if send is not None and receive is not None:
                if (send.payload_bytes, send.dtype) != (receive.payload_bytes, receive.dtype):
                    yield _reason(
                        "messages",
                        f"rank {send.rank} sends {_buffer(send)} to rank {receive.rank}, which "
                        f"receives into {_buffer(receive)}",
                        send,
                    )
            elif receive is not None and not self._failed():
                peer = f"rank {receive.peers[0]}" if receive.peers else "some rank"
                yield _reason(
                    "messages",
                    f"rank {receive.rank} waits for a message from {peer}, which never sends it"
                    f"{self._stuck()}",
                    receive,
                )
            elif send is not None and is_over and not self._failed():
                yield _reason(
                    "messages",
                    f"rank {send.rank} sends {_buffer(send)} to rank {send.peers[0]}, which never "
                    "receives it",
                    send,
                )

    def _stuck(self) -> str:
        return "" if all(self._ran.said) else ": no rank can go on"

    def _failed(self) -> list[tuple[int, RankSaid]]:
        return [(r, said) for r, said in enumerate(self._ran.said) if said and said.error]

    def _ends(self) -> Iterator[Reason]:
        failed = self._failed()
        if failed or not all(self._ran.said):
            yield from self._disagree()
        of_itself = [(rank, said) for rank, said in failed if not _LOST.search(said.error)]
        for rank, said in of_itself:
            yield self._raised("ends", rank, said)
        for rank, code in self._ran.codes.items():
            if code != STOOD_STILL and self._ran.said[rank] is None:
                yield self._died(rank, _OVERTIME if code == -signal.SIGXCPU else end_words(code))
        for rank, said in failed:
            yield self._raised("ends", rank, said)
        if not all(self._ran.said):
            yield self._hang()

    @cached_property
    def _findings(self) -> tuple[Finding, ...]:
        if self._trace is None:
            return ()
        return diagnose(self._trace, Seen(), patience_s=0).findings

    def _disagree(self) -> Iterator[Reason]:
        for finding in self._findings:
            if finding.wrong in _DISAGREE:
                yield Reason(check="ends", sentence=finding.sentence, line=finding.place.source)

    def _died(self, rank: int, words: str) -> Reason:
        return Reason(check="ends", sentence=f"rank {rank} {words}", event=self._last_of(rank))

    def _hang(self) -> Reason:
        for finding in self._findings:
            return Reason(check="ends", sentence=finding.sentence, line=finding.place.source)
        waiting = [
            event
            for rank in (() if self._trace is None else self._trace.ranks)
            for event in calls_of(rank)
            if event.id in rank.unfinished
        ]
        for event in waiting:
            return _reason("ends", f"no rank can go on: rank {event.rank} is in {_call(event)}",
                           event)  # fmt: skip
        if self._trace is not None and STOOD_STILL in self._ran.codes.values():
            return Reason(check="ends", sentence="the ranks stand still outside of any call")
        return Reason(check="ends", sentence=_LATE)

    def _raised(self, check: str, rank: int, said: RankSaid) -> Reason:
        line = self._line(said)
        at = f" at {line}" if line else ""
        return Reason(
            check=check, sentence=f"rank {rank} fails{at}: {said.error}", line=line,
            event=self._last_of(rank),
        )  # fmt: skip

    def _last_of(self, rank: int) -> Event | None:
        for one in self._trace.ranks if self._trace is not None else ():
            if one.rank == rank:
                return next(reversed(list(calls_of(one))), None)
        return None

    def _line(self, said: RankSaid) -> str:
        return f"{self._file.name}:{said.line}" if said.line else ""

    def _calls(self) -> Iterator[Reason]:
        allowed = self._promise.calls
        for event in self._events() if allowed else ():
            if str(event.op) not in allowed:
                names = " and ".join(allowed)
                yield _reason(
                    "calls", f"rank {event.rank} calls {_call(event)}: this puzzle is to be "
                    f"solved with {names}", event,
                )  # fmt: skip

    def _contents(self) -> Iterator[Reason]:
        if not self._promise.contents or self._trace is None:
            return
        known = {crc: name for said in self._said for crc, name in said.contents.items()}
        found = first_illegal(self._trace, known)
        if found is not None:
            event = found.event
            yield _reason(
                "contents",
                f"in round {found.round} rank {event.rank} sends to rank {event.peers[0]} "
                f"{found.words}",
                event,
            )

    def _values(self) -> Iterator[Reason]:
        for rank, said in enumerate(self._ran.said):
            if said is not None and said.difference:
                yield Reason(
                    check="values", sentence=f"on rank {rank} {said.difference}",
                    event=self._last_of(rank),
                )  # fmt: skip

    def _sent(self) -> Iterator[Reason]:
        if not self._promise.sent or self._trace is None:
            return
        most = bound(self._promise.sent, self._puzzle.ranks, self._sizes)
        calls = [
            call for call in traced_calls(self._trace)
            if self._counts(call.event)
        ]  # fmt: skip
        first: Reason | None = None
        largest = 0
        for rank in range(self._puzzle.ranks):
            sum_bytes, crossing = 0, None
            for call in calls:
                if call.rank == rank:
                    sum_bytes += total([call]).sent_bytes or 0
                    if sum_bytes > most and crossing is None:
                        crossing = call.event
            largest = max(largest, sum_bytes)
            if crossing is not None and first is None:
                first = _reason(
                    "sent",
                    f"rank {rank} sends {sum_bytes:,} bytes, the bound is {most:,}: "
                    f"{_call(crossing)} goes beyond it",
                    crossing,
                )
        self._scores.append(Score(what="bytes sent", found=largest, bound=most))
        if first is not None:
            yield first

    def _rounds(self) -> Iterator[Reason]:
        if not self._promise.rounds or self._trace is None:
            return
        most = bound(self._promise.rounds, self._puzzle.ranks, self._sizes)
        depths = rounds(self._trace)
        found = max(depths.values(), default=0)
        self._scores.append(Score(what="rounds", found=found, bound=most))
        if found > most:
            beyond = [
                event for event in self._events()
                if depths.get((event.rank, event.id), 0) > most
            ]  # fmt: skip
            yield _reason(
                "rounds", f"the messages take {found} rounds one after the other, {most} do: "
                f"rank {beyond[0].rank} sends in round {most + 1}", beyond[0],
            )  # fmt: skip

    def _num_calls(self) -> Iterator[Reason]:
        if not self._promise.num_calls or self._trace is None:
            return
        most = bound(self._promise.num_calls, self._puzzle.ranks, self._sizes)
        found = {
            rank.rank: [one for one in calls_of(rank) if self._counts(one)]
            for rank in self._trace.ranks
        }
        rank = max(found, key=lambda one: len(found[one]))
        self._scores.append(Score(what="calls", found=len(found[rank]), bound=most))
        if len(found[rank]) > most:
            yield _reason(
                "num_calls",
                f"rank {rank} makes {len(found[rank])} calls, {most} do: "
                f"{_call(found[rank][most])} is one more",
                found[rank][most],
            )

    def _counts(self, event: Event) -> bool:
        is_inside = event.phase is not Phase.OUTSIDE
        return event.iteration == self._puzzle.iteration and is_inside

    def _held(self) -> Iterator[Reason]:
        if not self._promise.held or self._trace is None:
            return
        most = bound(self._promise.held, self._puzzle.ranks, self._sizes)
        found = [
            (num_bytes, event)
            for said, rank in zip(self._ran.said, self._trace.ranks, strict=True)
            if said is not None
            for num_bytes, event in zip(said.held_bytes, calls_of(rank), strict=True)
            if self._counts(event)
        ]
        largest = max((num_bytes for num_bytes, _ in found), default=0)
        self._scores.append(Score(what="bytes held", found=largest, bound=most))
        for num_bytes, event in found:
            if num_bytes > most:
                yield _reason(
                    "held",
                    f"rank {event.rank} holds tensors of {num_bytes:,} bytes at {_call(event)}, "
                    f"the bound is {most:,}",
                    event,
                )

    def _overlap(self) -> Iterator[Reason]:
        if not self._promise.overlap or self._trace is None:
            return
        least = bound(self._promise.overlap, self._puzzle.ranks, self._sizes)
        counts = {one.rank: overlapping(one, self._puzzle.iteration) for one in self._trace.ranks}
        rank = min(counts, key=lambda one: counts[one])
        found = counts[rank]
        self._scores.append(Score(what="calls beside computation", found=found, bound=least))
        if found < least:
            yield Reason(
                check="overlap",
                sentence=f"rank {rank} computes while {found} calls are under way, at least "
                f"{least} could be: it waits for the others before it computes on",
                event=self._last_of(rank),
            )

    def _events(self) -> Iterator[Event]:
        for rank in self._trace.ranks if self._trace is not None else ():
            yield from calls_of(rank)


def _reason(check: str, sentence: str, event: Event) -> Reason:
    return Reason(check=check, sentence=sentence, event=event, line=event.source)


def _buffer(event: Event) -> str:
    return f"{event.elements:,} elements of {event.dtype}"


def _call(event: Event) -> str:
    where = {Op.SEND: " to rank ", Op.RECEIVE: " from rank "}.get(event.op or Op.UNKNOWN, "")
    peer = f"{where}{event.peers[0]}" if where and event.peers else ""
    name = f"the {event.op}{peer}" if event.op is not None else f"the computation of {event.unit}"
    return f"{name} at {event.source}" if event.source else name
