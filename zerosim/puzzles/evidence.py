"""The evidence about a program: its ranks' reports, and their trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from zerosim.base.errors import TraceError
from zerosim.puzzles.bounds import bound
from zerosim.puzzles.messages import calls_of
from zerosim.puzzles.rank import RankSaid
from zerosim.puzzles.running import Ran
from zerosim.puzzles.standstill import STOOD_STILL
from zerosim.record import Trace, load
from zerosim.schema.events import Event, Phase
from zerosim.theory.movement import MESSAGES
from zerosim.verify.diagnosis import Finding, ProcessStates, diagnose


class RunEvidence:
    """The evidence of one run.

    Attributes:
        puzzle: the puzzle.
        promise: the behavior of a correct program.
        ran: the outcome of the run.
        trace: None if there is none.
    """

    def __init__(self, ran: Ran) -> None:
        """Read the trace."""
        self.ran = ran
        self.puzzle = ran.submission.puzzle
        self.promise = self.puzzle.promise
        self._sizes = next((said.sizes for said in ran.said if said and said.sizes), {})
        try:
            self.trace: Trace | None = load(ran.submission.folder)
        except TraceError:
            self.trace = None

    @property
    def is_over(self) -> bool:
        """Whether every rank reported its outcome."""
        return all(self.ran.said)

    @property
    def is_stuck(self) -> bool:
        """Whether deadlocked ranks were ended."""
        return not self.is_over and STOOD_STILL in self.ran.codes.values()

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """The problem of calls that do not end."""
        if self.trace is None:
            return ()
        return diagnose(self.trace, ProcessStates(), patience_s=0).findings

    @property
    def failed(self) -> list[tuple[int, RankSaid]]:
        """Ranks that ended with an error, and their messages."""
        return [(r, said) for r, said in enumerate(self.ran.said) if said and said.error]

    def events(self) -> Iterator[Event]:
        """The calls of all ranks."""
        for rank in self.trace.ranks if self.trace is not None else ():
            yield from calls_of(rank)

    def last_of(self, rank: int) -> Event | None:
        """The last call of a rank; None if it made none."""
        for one in self.trace.ranks if self.trace is not None else ():
            if one.rank == rank:
                return next(reversed(list(calls_of(one))), None)
        return None

    def counts(self, event: Event) -> bool:
        """Whether a call is in the measured iteration."""
        is_inside = event.phase is not Phase.OUTSIDE
        return event.iteration == self.puzzle.iteration and is_inside

    def crosses(self, event: Event) -> bool:
        """Whether the ranks of a call are on several nodes of `node` ranks each."""
        assert self.trace is not None, "an event is of a trace"
        group = self.trace.ranks[event.rank].groups.get(event.group)
        if group is None or event.op in MESSAGES:
            ranks: Sequence[int] = (event.rank, *event.peers)
        else:
            ranks = group.ranks
        return len({one // self._sizes["node"] for one in ranks}) > 1

    def value_of(self, formula: str, rank: int = 0) -> int:
        """The value of a bound, with the sizes of this run; for a rank if the formula depends on
        it.
        """
        return bound(formula, self.puzzle.ranks, self._sizes, rank)

    def line(self, said: RankSaid) -> str:
        """The line of the program that raised a rank's error, "ring.py:14"; "" if it was
        elsewhere.
        """
        return f"{self.ran.submission.file.name}:{said.line}" if said.line else ""
