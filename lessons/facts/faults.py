"""Failing runs and paused ranks: their traces, and the culprit."""

from __future__ import annotations

import re
from functools import cache

from zerosim.base.language import Words, enumerated, term
from zerosim.lessons.facts.base import Base
from zerosim.lessons.recordings import HERE, LessonRecordings, session_of
from zerosim.record import RankTrace
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.verify.diagnosis import Diagnosis, Finding, ProcessStates, diagnose

_WORDS = Words(HERE / "words.toml")


class FaultFacts(Base):
    """Facts about failures, and about the replies of paused ranks."""

    def __init__(self, recordings: LessonRecordings) -> None:
        super().__init__(recordings)
        self._folder = recordings.folder
        self._diagnosis = cache(self._diagnose)

    def _diagnose(self, run: str) -> Diagnosis:
        return diagnose(self._run(run).trace, ProcessStates())

    def _finding(self, run: str) -> Finding:
        found = self._diagnosis(run).findings
        assert found, run
        return found[0]

    def culprit(self, run: str) -> str:
        """The culprit."""
        return str(self._finding(run).ranks[0])

    def wrong(self, run: str) -> str:
        """What it did."""
        return self._finding(run).wrong.value

    def told(self, run: str) -> list[tuple[str, str]]:
        """The output of `zerosim diagnose`, line by line, each with its kind."""
        found = self._diagnosis(run)
        said = _WORDS.table["facts"]["told"]
        rows = [(said["who"], found.headline)]
        for one in found.findings[:1]:
            rows += [(said["because"], text) for text in one.evidence]
            rows += [(said["try"], one.advice)] if one.advice else []
        return rows + [(said["also"], one.sentence) for one in found.findings[1:]]

    def guilty_iteration(self, run: str) -> int:
        """The iteration of the fault."""
        return self._finding(run).place.iteration

    def last_call(self, run: str, rank: int) -> str:
        """The call that a rank began last, in words."""
        calls = [one for one in self._rank(run, rank).events if one.kind is Kind.COLLECTIVE]
        last = max(calls, key=lambda one: one.issue_ns or 0)
        return _WORDS(
            "facts.call_of" if last.unit else "facts.call_for",
            op=term(last.op or ""),
            unit=last.unit,
            purpose=term(last.purpose or ""),
            phase=term(last.phase),
            iteration=last.iteration,
        )

    def first_calls(self, run: str, rank: int, iteration: int) -> list[str]:
        """The units that a rank gathered first in the forward of an iteration, in order."""
        called = [
            one
            for one in self._rank(run, rank).events
            if one.kind is Kind.COLLECTIVE
            and (one.iteration, one.phase, one.purpose)
            == (iteration, Phase.FORWARD, Purpose.GATHER_PARAMETERS)
        ]
        return [one.unit for one in sorted(called, key=lambda one: one.sequence or 0)]

    def second_compute_ms(self, run: str) -> float:
        """Computing time of the slowest rank other than the culprit."""
        time = self._run(run).time(by=("rank",))
        own = [row["compute_ns"] for row in time if str(row["rank"]) != self.culprit(run)]
        return float(max(own)) / 1e6

    def ending(self, run: str, rank: int) -> str:
        """The end of its trace, in words."""
        trace = self._rank(run, rank)
        if trace.failure is not None and trace.failure.waiting_for:
            others = enumerated(map(str, sorted(trace.failure.waiting_for)))
            return _WORDS("facts.waited", ranks=others)
        if trace.failure is not None:
            return _WORDS("facts.error")
        return _WORDS("facts.in_order" if trace.complete else "facts.cut_off")

    def who_complains(self, run: str) -> str:
        """The lowest rank that left an error and is not at fault; if none did, the lowest."""
        others = [rank for rank in self._run(run).ranks if str(rank) != self.culprit(run)]
        said = [rank for rank in others if self._rank(run, rank).failure is not None]
        return str((said or others)[0])

    def _rank(self, run: str, rank: int) -> RankTrace:
        return next(one for one in self._run(run).trace.ranks if one.rank == rank)

    # paused ranks

    def session(self, run: str, part: str) -> list[tuple[str, list[str]]]:
        """A part of a debugger session: commands, each with its reply."""
        return session_of(run, self._folder(run))[part]

    def _answer(self, run: str, part: str, command: str) -> list[str]:
        return next(said for given, said in self.session(run, part) if given == command)

    def looked_at(self, run: str, command: str) -> list[int]:
        """Number of elements that each rank has of the inspected tensor."""
        _, *rows = self._answer(run, "stand", command)
        return [int(row.split()[2]) for row in rows]

    def waited_in(self, run: str) -> str:
        """The purpose of the call in which the only released rank waited."""
        found = re.fullmatch(r"rank 1 waits for .*: .*, (.*)", self._answer_alone(run)[0])
        assert found is not None, run
        return found[1]

    def waited_for_unit(self, run: str) -> str:
        """The unit of that call."""
        found = re.search(r": [a-z-]+ of (\S+), ", self._answer_alone(run)[0])
        assert found is not None, run
        return found[1]

    def _answer_alone(self, run: str) -> list[str]:
        return self._answer(run, "alone", "only 1 phase")

    def stopped_before(self, run: str) -> str:
        """The unit of the reduction at the breakpoint."""
        found = re.search(r"reduce-scatter of (\S+):", self._answer(run, "stops", "continue")[1])
        assert found is not None, run
        return found[1]

    def checked_sum(self, run: str) -> str:
        """Whether the reduced gradient is the sum of the ranks' own ("sum") or their "mean"."""
        said = self._answer(run, "sum", "check sum")[0]
        found = re.search(r"the (sum|mean) of the ranks' gradients", said)
        assert found is not None, run
        return found[1]

    def sum_differs_by(self, run: str) -> float:
        """The maximum deviation."""
        found = re.search(r"within (\S+) ", self._answer(run, "sum", "check sum")[0])
        assert found is not None, run
        return float(found[1])

    def whole_at_forward(self, run: str) -> int:
        """Number of tensors that the watch on replicas compares when a forward begins."""
        said = [lines for given, lines in self.session(run, "watch") if given == "check"][-1]
        return sum("equal on all ranks" in line or " differ" in line for line in said)
