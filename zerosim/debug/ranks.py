"""All ranks together: connected ranks, paused threads, and whether the others wait.

A thread that is not paused either waits or computes. The kernel's data of two consecutive queries
on all ranks show which (`SocketKeeper`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.debug.link import Door, HeldThread, RankConnection
from zerosim.debug.outcomes import StepEnd, Why, of_ranks
from zerosim.debug.steps import LiveStep, key_of, steps_of

WAIT_S = 0.05
_PATIENCE_S = 0.25
"""Idle time after which a rank without a paused thread counts as waiting."""


class Ranks:
    """All ranks of a program, as far as they have connected.

    Attributes:
        is_attached: whether their gates are closed.
        over: how the program ended; "" if it did not.
    """

    def __init__(self, door: Door) -> None:
        self.door = door
        self.is_attached = True
        self.over = ""

    @property
    def links(self) -> list[RankConnection]:
        """The connected ranks, in their order."""
        return [link for _, link in sorted(self.door.links.items()) if link.is_here]

    @property
    def here(self) -> tuple[int, ...]:
        """The numbers of the connected ranks."""
        return tuple(link.rank for link in self.links)

    @property
    def num_ranks(self) -> int:
        """The number of ranks of the program; 0 until one has connected."""
        return max((link.num_ranks for link in self.door.links.values()), default=0)

    def standing(self) -> list[HeldThread]:
        """All threads at closed gates, by rank, in order of arrival."""
        with self.door.changed:
            found = [one for link in self.links for one in link.standing.values()]
        return sorted(found, key=lambda one: (one.rank, one.arrival))

    def steps(self) -> list[LiveStep]:
        """The next events of these threads, in order of arrival."""
        return steps_of(self.standing(), self.here)

    def is_whole(self) -> bool:
        """Whether all ranks have connected."""
        return 0 < self.num_ranks == len(self.door.links)

    def wait(self, seconds: float = WAIT_S) -> None:
        """Wait until a rank sends a message, or until a timeout."""
        with self.door.changed:
            self.door.changed.wait(seconds)

    def ask(self, what: str, ranks: tuple[int, ...] = (), **more: Any) -> dict[int, dict[str, Any]]:
        """Query ranks, all by default; `SocketKeeper` defines the queries.

        Raises:
            ConfigError: a rank cannot answer: the query is wrong, or it is not paused.
        """
        answers = self.door.ask(what, list(ranks or self.here), **more)
        for rank, answer in answers.items():
            if error := answer.get("error"):
                raise ConfigError(f"rank {rank} says: {error}")
        return answers

    def let_run(self, links: Iterable[RankConnection], breakpoints: list[dict[str, Any]]) -> None:
        """Let ranks run until a breakpoint."""
        chosen = list(links)
        with self.door.changed:
            for link in chosen:
                link.standing.clear()
        for link in chosen:
            self.door.tell(link, "run", breakpoints=breakpoints)

    def stop(self) -> None:
        """Make running ranks stop at their next events."""
        for link in self.links:
            self.door.tell(link, "stop")

    def let_all_go(self) -> None:
        """Open all gates."""
        self.is_attached = False
        self.door.lets_all_go = True
        for link in self.links:
            self.door.tell(link, "open")

    @property
    def lost(self) -> tuple[int, ...]:
        """The ranks that have left without ending normally."""
        links = list(self.door.links.values())
        gone = (link for link in links if not link.is_here and not link.left_in_order)
        return tuple(sorted(link.rank for link in gone))

    @property
    def is_over(self) -> bool:
        """Whether no rank can be controlled any more."""
        has_left = bool(self.door.links) and not self.links
        return bool(self.lost or self.over or has_left) or not self.is_attached

    def problem(self) -> StepEnd | None:
        """Why no rank can be controlled any more."""
        links = list(self.door.links.values())
        if (lost := self.lost) and self.is_attached:
            others = "; all others were released" if self.links else ""
            self.let_all_go()
            are = "is" if len(lost) == 1 else "are"
            folder = self.door.links[lost[0]].folder
            return StepEnd(
                Why.LEFT,
                f"{of_ranks(lost)} {are} gone{others}; to see the trace up to that point: zerosim "
                f"replay {folder}",
            )
        if self.over or (links and not self.links):
            return StepEnd(Why.ENDED, self.over)
        return None if self.is_attached else StepEnd(Why.DETACHED)

    def settle(
        self, ranks: Sequence[int], is_interrupted: Callable[[], bool] = lambda: False
    ) -> StepEnd | None:
        """Wait until these ranks are paused or waiting; returns why that is impossible."""
        quiet_since: float | None = None
        moves: dict[int, int] = {}
        while True:
            problem = self.problem()
            if problem is not None or is_interrupted():
                return problem
            links = [link for link in self.links if link.rank in ranks]
            with self.door.changed:
                if all(link.standing and len(link.threads) == 1 for link in links):
                    return None
            answers = self.door.ask("settled", [link.rank for link in links])
            now, all_stand = time.monotonic(), all(link.standing for link in links)
            moved = {rank: answer["moves"] for rank, answer in answers.items()}
            if not all(answer["quiet"] for answer in answers.values()) or moved != moves:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            if quiet_since is not None and (all_stand or now - quiet_since > _PATIENCE_S):
                return None
            moves = moved

    def front(self) -> HeldThread | None:
        """Ranks that are paused at a position that no other rank has reached."""
        standing = self.standing()
        for one in standing:
            others = tuple(rank for rank in self.here if rank != one.rank)
            met = self.ask("has_met", others, stand=one.stand.to_plain()) if others else {}
            if not any(
                answer["met"] and not self._is_at(rank, one) for rank, answer in met.items()
            ):
                return one
        return standing[0] if standing else None

    @staticmethod
    def is_same(one: HeldThread, other: HeldThread) -> bool:
        """Whether two ranks are paused before the same event."""
        return key_of(one.rank, one.stand) == key_of(other.rank, other.stand)

    def _is_at(self, rank: int, other: HeldThread) -> bool:
        return any(self.is_same(one, other) for one in self.standing() if one.rank == rank)

    def align(self, front: HeldThread) -> StepEnd | None:
        """Let ranks that are behind run to the position of one rank; those ahead stay."""
        plain = front.stand.to_plain()
        while True:
            problem = self.settle(self.here)
            if problem is not None:
                return problem
            behind = [
                one
                for one in self.standing()
                if one.rank != front.rank and not self._is_at(one.rank, front)
            ]
            ranks = tuple(sorted({one.rank for one in behind}))
            met = self.ask("has_met", ranks, stand=plain) if ranks else {}
            behind = [one for one in behind if not met.get(one.rank, {"met": True})["met"]]
            if not behind:
                return None
            self.door.let_through([min(behind, key=lambda one: one.arrival)])
