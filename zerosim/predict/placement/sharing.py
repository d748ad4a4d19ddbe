"""Resources that several activities need at once: a link, the cores of a node.

A resource serves a number of activities at full speed; if there are more, they get equal fractions
of it (processor sharing, as TCP's flows and a scheduler's threads do on average). Some
have priority, as woken threads do: they share the whole resource, and others the rest.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush

from zerosim.analysis.graph.table import Ints

_LEAST = 1e-3
"""Fraction of a resource that remains for others under any priority load."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A limited resource.

    Attributes:
        name: "link within a node" and the like.
        place: its instance: a node, a rank.
        room: number of users at full speed.
        goes_first: whether its users have priority over others.
    """

    name: str
    place: int
    room: float = 1
    goes_first: bool = False


Needs = tuple[Resource, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The resources of all activities.

    Attributes:
        needs: different needs; the first is none.
        of: by moment, the need of its lag, as an index.
    """

    needs: tuple[Needs, ...]
    of: Ints


@dataclass(slots=True)
class _LinkUse:
    """An activity in progress: its remaining work at a time, and its speed."""

    needs: Needs
    left_ns: float
    now: float
    speed: float = 0.0
    turn: int = 0


@dataclass(slots=True)
class Underway:
    """The activities on resources, in order of time."""

    _uses: dict[int, _LinkUse] = field(default_factory=dict)
    _users: Counter[Resource] = field(default_factory=Counter)
    _who: dict[Resource, set[int]] = field(default_factory=dict)
    _ends: list[tuple[float, int, int]] = field(default_factory=list)

    def begin(self, moment: int, now: float, lasts_ns: float, needs: Needs) -> None:
        """Another activity begins, the latest of those with the same need."""
        self._uses[moment] = _LinkUse(needs, lasts_ns, now)
        for resource in needs:
            self._users[resource] += 1
            self._who.setdefault(resource, set()).add(moment)
        self._pace(needs, now)

    def next_end(self) -> float | None:
        """The next end of an activity, if no other begins before; None if there is none."""
        while self._ends:
            end, moment, turn = self._ends[0]
            use = self._uses.get(moment)
            if use is not None and use.turn == turn:
                return end
            heappop(self._ends)
        return None

    def finish(self) -> tuple[int, float]:
        """The activity that ends next: its moment, and the time of that."""
        end, moment, _ = heappop(self._ends)
        use = self._uses.pop(moment)
        for resource in use.needs:
            self._users[resource] -= 1
            self._who[resource].discard(moment)
        self._pace(use.needs, end)
        return moment, end

    def _pace(self, needs: Needs, now: float) -> None:
        """The speed of activities with any of these needs."""
        concerned = {*needs, *(_others(one, first=False) for one in needs if one.goes_first)}
        for moment in sorted(set().union(*(self._who.get(one, ()) for one in concerned))):
            use = self._uses[moment]
            speed = min(self._speed(one) for one in use.needs)
            if speed != use.speed:
                use.left_ns -= (now - use.now) * use.speed
                use.now, use.speed, use.turn = now, speed, use.turn + 1
                heappush(self._ends, (now + max(use.left_ns, 0) / speed, moment, use.turn))

    def _speed(self, resource: Resource) -> float:
        """The speed of each of its users."""
        left = resource.room
        if not resource.goes_first:
            left = max(_LEAST, left - self._users[_others(resource, first=True)])
        return min(1.0, left / self._users[resource])


@lru_cache(maxsize=4096)
def _others(resource: Resource, *, first: bool) -> Resource:
    """The same resource for users with and without priority."""
    return replace(resource, goes_first=first)
