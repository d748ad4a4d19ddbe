"""What several things need at once: a link, the cores of a node. Who uses it together shares it.

As many as there is room for go at full speed; more of them get equal parts of it, all of the time
(processor sharing, as TCP's flows and a scheduler's threads do in the mean). Some may go first, as
threads do that were woken: they share all of it, and others what these leave.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush

from zerosim.analysis.graph.table import Ints

_LEAST = 1e-3
"""Of a resource, what is left for others however many go first."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that there is only so much of.

    Attributes:
        name: "link within a node" and the like.
        place: which of them: a node, a rank.
        room: how many can use it at full speed.
        goes_first: whether who needs it so leaves others the rest.
    """

    name: str
    place: int
    room: float = 1
    goes_first: bool = False


Needs = tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who needs what.

    Attributes:
        needs: different needs; the first is none.
        of: by moment, what its lag needs, as a position among them.
    """

    needs: tuple[Needs, ...]
    of: Ints


@dataclass(slots=True)
class _LinkUse:
    """Something that takes place: what is left of it at which time, and how fast it goes."""

    needs: Needs
    left_ns: float
    now: float
    speed: float = 0.0
    turn: int = 0


@dataclass(slots=True)
class Underway:
    """What takes place with resources, in the order of time."""

    _uses: dict[int, _LinkUse] = field(default_factory=dict)
    _users: Counter[Resource] = field(default_factory=Counter)
    _who: dict[Resource, set[int]] = field(default_factory=dict)
    _ends: list[tuple[float, int, int]] = field(default_factory=list)

    def begin(self, moment: int, now: float, lasts_ns: float, needs: Needs) -> None:
        """One more begins; of others that need the same it is the latest."""
        self._uses[moment] = _LinkUse(needs, lasts_ns, now)
        for resource in needs:
            self._users[resource] += 1
            self._who.setdefault(resource, set()).add(moment)
        self._pace(needs, now)

    def next_end(self) -> float | None:
        """When the next one is over, if no other begins before; None if there is none."""
        while self._ends:
            end, moment, turn = self._ends[0]
            use = self._uses.get(moment)
            if use is not None and use.turn == turn:
                return end
            heappop(self._ends)
        return None

    def finish(self) -> tuple[int, float]:
        """The next one is over: its moment, and when that is."""
        end, moment, _ = heappop(self._ends)
        use = self._uses.pop(moment)
        for resource in use.needs:
            self._users[resource] -= 1
            self._who[resource].discard(moment)
        self._pace(use.needs, end)
        return moment, end

    def _pace(self, needs: Needs, now: float) -> None:
        """How fast those go that need any of these."""
        concerned = {*needs, *(_others(one, first=False) for one in needs if one.goes_first)}
        for moment in sorted(set().union(*(self._who.get(one, ()) for one in concerned))):
            use = self._uses[moment]
            speed = min(self._speed(one) for one in use.needs)
            if speed != use.speed:
                use.left_ns -= (now - use.now) * use.speed
                use.now, use.speed, use.turn = now, speed, use.turn + 1
                heappush(self._ends, (now + max(use.left_ns, 0) / speed, moment, use.turn))

    def _speed(self, resource: Resource) -> float:
        """Of each of its users."""
        left = resource.room
        if not resource.goes_first:
            left = max(_LEAST, left - self._users[_others(resource, first=True)])
        return min(1.0, left / self._users[resource])


@lru_cache(maxsize=4096)
def _others(resource: Resource, *, first: bool) -> Resource:
    """The same resource, as those need it who go first, or who do not."""
    return replace(resource, goes_first=first)
