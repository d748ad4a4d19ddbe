"""A beat under construction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zerosim.analysis.beats.beat import Doing, Sign, Turn


@dataclass(frozen=True, slots=True)
class StepRange:
    """Consecutive steps.

    Attributes:
        main: its main step.
        doings: its actions, each once.
        begins: whether a phase begins with it; is_phase: as in a beat.
        within: as in a beat.
        turns: by rank, its turn in a pipeline; kept: as in a beat.
    """

    first: int
    last: int
    main: int
    doings: tuple[Doing, ...]
    begins: bool = False
    is_phase: bool = False
    within: str = ""
    turns: Mapping[int, Turn] = field(default_factory=dict)
    kept: Mapping[int, int] = field(default_factory=dict)

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Its actions."""
        return tuple(dict.fromkeys(doing.sign for doing in self.doings))

    def tells_of(self, doing: Doing) -> bool:
        """Whether the part already processes an action's unit."""
        is_inside = bool(self.within) and doing.unit.startswith(f"{self.within}.")
        return is_inside and doing.sign in self.signs

    def with_more(self, more: StepRange) -> StepRange:
        """The two parts combined."""
        doings = dict.fromkeys((*self.doings, *more.doings))
        turns = {**self.turns, **more.turns}
        return replace(self, last=more.last, doings=tuple(doings), turns=turns)
