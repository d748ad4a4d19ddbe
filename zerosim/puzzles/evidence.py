"""What there is to judge a program by: what its ranks said, and their trace.

Imports diagnosis, record and its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from zerosim.diagnosis import Finding, Seen, diagnose
from zerosim.errors import TraceError
from zerosim.events import Event, Phase
from zerosim.puzzles.bounds import bound
from zerosim.puzzles.messages import calls_of
from zerosim.puzzles.rank import RankSaid
from zerosim.puzzles.running import Ran
from zerosim.record import Trace, load


class Evidence:
    """Of one run.

    Attributes:
        puzzle: what was to be solved.
        promise: what a right program does.
        ran: how it went.
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
        """Whether every rank came so far as to say how it went."""
        return all(self.ran.said)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with calls that do not come to an end."""
        if self.trace is None:
            return ()
        return diagnose(self.trace, Seen(), patience_s=0).findings

    @property
    def failed(self) -> list[tuple[int, RankSaid]]:
        """Ranks that ended with an error, and what they said."""
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
        """Whether a call is in what is measured."""
        is_inside = event.phase is not Phase.OUTSIDE
        return event.iteration == self.puzzle.iteration and is_inside

    def value_of(self, formula: str) -> int:
        """Of a bound, with the sizes of this run."""
        return bound(formula, self.puzzle.ranks, self._sizes)

    def line(self, said: RankSaid) -> str:
        """Where the program raised what a rank says, "ring.py:14"; "" if it was not there."""
        return f"{self.ran.submission.file.name}:{said.line}" if said.line else ""
