"""Concurrent actions during a beat; prefetches."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence

from zerosim.analysis.beats.beat import Doing, Sign
from zerosim.analysis.beats.doing import doing_of
from zerosim.analysis.frames.step import Step

_SAID_BY_ITSELF = (Sign.BEGIN, Sign.END, Sign.STAND)


class Beside:
    """Finds the concurrent steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        """Read the steps once."""
        self._steps = steps
        self._doings = [doing_of(step) for step in steps]
        self._computed = [
            place for place, doing in enumerate(self._doings) if doing.sign is Sign.COMPUTE
        ]
        self._early: list[tuple[int, ...]] = []  # by step, the earlier steps that continue
        going_on: tuple[int, ...] = ()
        for place, step in enumerate(steps):
            going_on = tuple(one for one in going_on if steps[one].until >= place)
            self._early.append(going_on)
            if step.until > place:
                going_on += (place,)

    def during(self, first: int, last: int, own: Collection[Doing]) -> tuple[Doing, ...]:
        """The concurrent actions from one step to another, each once, in order of start.

        Args:
            own: actions to omit.
        """
        places = (*self._early[first], *range(first, last + 1))
        found = dict.fromkeys(self._doings[place] for place in places)
        return tuple(
            doing for doing in found if doing not in own and doing.sign not in _SAID_BY_ITSELF
        )

    def is_ahead(self, gathering: Sequence[int]) -> bool:
        """Whether a unit is gathered before others of its phase have been computed.

        Args:
            gathering: the steps of the gather.
        """
        first, unit = gathering[0], self._doings[gathering[0]].unit
        is_ahead = any(
            doing.sign is Sign.COMPUTE and doing.unit != unit
            for doing in self.during(first, gathering[-1], ())
        )
        for number in range(bisect_left(self._computed, first), len(self._computed)):
            place = self._computed[number]
            if self._steps[place].phase is not self._steps[first].phase:
                break
            if self._doings[place].unit == unit:
                return is_ahead
            is_ahead = True
        return False  # it has been computed already, or under a different name
