"""The controller: steps of all ranks or of one, breakpoints, and queries to the ranks.

All ranks advance together: a step is released when all of its ranks are paused before it, and the
next one when they are paused again. At each stop nothing is in flight, except for a rank that was
released alone, and the tensors of the ranks are a consistent cut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.debug.gathering import gather
from zerosim.debug.goals import GOALS, Goal
from zerosim.debug.link import Door, HeldThread
from zerosim.debug.outcomes import Breakpoint, StepEnd, Why
from zerosim.debug.ranks import Ranks
from zerosim.debug.replicas import Compared, compare, said_of_replicas
from zerosim.debug.steps import History, LiveStep, steps_of
from zerosim.debug.sums import Summed, compare_sums, read_values
from zerosim.debug.waiting import taking_longer, why_waiting
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.schema.stands import FORWARD, Stand

MOST_STEPS = 100_000
_FOR_REPLICAS = "breakpoint 0:"


class Controller(Ranks):
    """Pauses the ranks of one program, and decides which continue.

    Attributes:
        history: the steps of this iteration.
        breakpoints: by number.
        watches_replicas: whether running ranks stop if replicas differ, checked when each
            forward begins.
        longest_s: running ranks stop if a collective takes longer; None for no limit.
    """

    def __init__(self, door: Door, *, attaches: bool = False) -> None:
        """Create a controller without ranks.

        Args:
            attaches: whether the ranks were already running; they then pause at the start of an
                iteration.
        """
        super().__init__(door)
        self._attaches = attaches
        self.history = History()
        self.breakpoints: dict[int, Breakpoint] = {}
        self.watches_replicas = False
        self.longest_s: float | None = None
        self._numbers = 0
        self._pause = threading.Event()
        self._listeners: list[Callable[[StepEnd], None]] = []
        self._going = threading.Lock()
        self._has_told = False

    def program_ended(self, how: str) -> None:
        """Record that the program has ended, for whatever reason."""
        with self.door.changed:
            self.over = how or "ended"
            self.door.changed.notify_all()

    def wait_until_over(self) -> StepEnd | None:
        """Wait until the program ends, a rank is gone, or the debugger detaches.

        Returns:
            The outcome; None if the caller of a step received it.
        """
        while not self.is_over:
            self.wait()
        with self._going:  # the caller of a step reports it
            if self._has_told:
                return None
            known: tuple[int, ...] = ()
            while known != (known := self.lost):  # other ranks may leave at the same moment
                self.wait()
            outcome = self.problem() or StepEnd(Why.ENDED, self.over)
        return self._tell(outcome)

    # steps

    @property
    def is_going(self) -> bool:
        """Whether a step is in progress."""
        return self._going.locked()

    def listen(self, listener: Callable[[StepEnd], None]) -> None:
        """Call this function at each stop, for any caller of the step."""
        self._listeners.append(listener)

    def begin(self) -> StepEnd:
        """Wait until all ranks are paused before their first event, or that of their next
        iteration.
        """
        return self._told(self._begin)

    def step(self, goal: Goal, only: int | None = None) -> StepEnd:
        """Let the ranks run to a goal, or to a breakpoint before it.

        Args:
            only: this rank alone; None for all.

        Raises:
            ConfigError: there is no such rank, no rank is paused, or the ranks are running already.
        """
        return self._told(lambda: self._step(goal, only))

    def run(self) -> StepEnd:
        """Let all ranks run at their own pace until one of them reaches a breakpoint.

        `pause` also ends it.

        Raises:
            ConfigError: no rank is paused, or the ranks are running already.
        """
        return self._told(self._run)

    def _told(self, go: Callable[[], StepEnd]) -> StepEnd:
        if not self._going.acquire(blocking=False):
            raise ConfigError("the ranks are already running: wait for them, or pause them")
        try:
            outcome = go()
        finally:
            self._going.release()
        return self._tell(outcome)

    def _tell(self, outcome: StepEnd) -> StepEnd:
        self._has_told = self._has_told or outcome.is_last
        for listener in self._listeners:
            listener(outcome)
        return outcome

    def _begin(self) -> StepEnd:
        while not self.is_whole():
            if self.over:
                return StepEnd(Why.ENDED, self.over)
            if self._pause.is_set():
                self.detach()
                return StepEnd(
                    Why.DETACHED, "interrupted before all ranks had connected: none is stopped"
                )
            self.wait()
        self.history = History(self.links[0].folder if self.links else None)
        if self._attaches:
            return gather(self, self._pause.is_set)
        return self.settle(self.here) or StepEnd(Why.REACHED)

    def _step(self, goal: Goal, only: int | None) -> StepEnd:
        self._require_held(only)
        self._pause.clear()
        began: Stand | None = None
        for _ in range(MOST_STEPS):
            ranks = self.here if only is None else (only,)
            problem = self.settle(ranks)
            if problem is not None:
                return problem
            following = self._following(only)
            if following is None:
                return StepEnd(Why.WAITS, self.why_waiting(ranks[0]))
            if began is not None:
                if GOALS[goal](began, following, self.history):
                    return StepEnd(Why.REACHED)
                if why := self._breakpoint_at(following):
                    return StepEnd(Why.BREAKPOINT, why)
                if self._pause.is_set():
                    return StepEnd(Why.PAUSED)
            began = began or following.stand
            self._let_through(following)
        return StepEnd(Why.PAUSED, f"after {MOST_STEPS:,} steps")

    def _run(self) -> StepEnd:
        self._require_held(None)
        self._pause.clear()
        while True:
            stopped = self._run_once()
            if isinstance(stopped, StepEnd):
                return stopped
            if not stopped.why.startswith(_FOR_REPLICAS):
                return StepEnd(Why.BREAKPOINT, f"rank {stopped.rank}, {stopped.why}")
            differ = [one for one in self.compare_replicas() if one.differ]
            if differ:
                return StepEnd(Why.BREAKPOINT, said_of_replicas(differ))

    def _run_once(self) -> StepEnd | HeldThread:
        """Release all ranks until one stops; returns where, or why no further release is needed."""
        self.let_run(self.links, self._plain())
        hit: HeldThread | None = None
        slow = ""
        while hit is None and not slow and not self._pause.is_set():
            problem = self.problem()
            if problem is not None:
                return problem
            self.wait()
            hit = next((one for one in self.standing() if one.why), None)
            slow = taking_longer(self, self.longest_s)
        self.stop()
        problem = self.settle(self.here)
        if problem is not None:
            return problem
        front = hit or self.front()
        problem = None if front is None else self.align(front)
        self.history = History(self.history.folder)
        if hit is not None and problem is None:
            # others may have reached it as well; the lowest rank is named
            return next(one for one in self.standing() if one.why and self.is_same(one, hit))
        return problem or StepEnd(Why.BREAKPOINT if slow else Why.PAUSED, slow)

    def compare_replicas(self) -> list[Compared]:
        """The replicas of all ranks, with each rank's checksum."""
        answers = self.ask("tensors")
        folder = self.history.folder
        return [] if folder is None else compare(folder, answers)

    def check_sum(self) -> Summed:
        """Let the ranks run to the next phase, and compare a reduced gradient with the sum.

        Raises:
            ConfigError: they are not paused before the reduction of a unit's gradients with all
                local gradients present, or did not reach the next phase.
        """
        following = next(iter(self.steps()), None)
        stand = None if following is None else following.stand
        if stand is None or stand.purpose is not Purpose.REDUCE_GRADIENTS:
            raise ConfigError(
                "the ranks are not stopped before a gradient reduction: step to one, as with "
                'break purpose=="reduce gradients"'
            )
        role = Role.GRADIENTS.value
        before = read_values(self.ask("values", role=role, unit=stand.unit))
        outcome = self.step(Goal.PHASE)
        if outcome.why is not Why.REACHED:
            raise ConfigError(f"the ranks did not reach the next phase: {outcome.why}")
        after = read_values(self.ask("values", role=role, unit=stand.unit))
        return compare_sums(stand.unit, before, after)

    def pause(self) -> None:
        """Pause running ranks, or a long step, at the next event."""
        self._pause.set()
        with self.door.changed:
            self.door.changed.notify_all()

    def detach(self) -> None:
        """Open all gates: the program continues as if it had never been paused."""
        self.let_all_go()

    def add_breakpoint(self, text: str) -> Breakpoint:
        """Stop when a condition is true."""
        self._numbers += 1
        found = Breakpoint(self._numbers, text)
        self.breakpoints[found.number] = found
        return found

    def why_waiting(self, rank: int) -> str:
        """The ranks for which a rank waits, according to its calls."""
        return why_waiting(self, rank)

    # internals

    def _plain(self) -> list[dict[str, Any]]:
        own = [Breakpoint(0, FORWARD)] if self.watches_replicas else []
        return [one.to_plain() for one in (*own, *self.breakpoints.values())]

    def _require_held(self, only: int | None) -> None:
        if not self.is_attached:
            raise ConfigError("the ranks were released: they cannot be stopped again")
        if only is not None and only not in self.here:
            raise ConfigError(
                f"rank is {only}: expected one of {', '.join(map(str, self.here)) or 'none'}"
            )

    def _following(self, only: int | None) -> LiveStep | None:
        """The next event to release; None if no paused thread may continue."""
        if only is None:
            return next(iter(self.steps()), None)
        own = [one for one in self.standing() if one.rank == only]
        return next(iter(steps_of(own, (only,))), None)

    def _let_through(self, step: LiveStep) -> None:
        self.history.add(step)
        self.door.let_through(list(step.standing))

    def _breakpoint_at(self, step: LiveStep) -> str:
        """The breakpoint that one of the ranks has reached; "" if none."""
        if self.watches_replicas and step.stand.kind is Kind.MARK:
            differ = [one for one in self.compare_replicas() if one.differ]
            if differ and step.stand.phase is Phase.FORWARD:
                return said_of_replicas(differ)
        if not self.breakpoints:
            return ""
        for one in step.standing:
            answer = self.ask("check", (one.rank,), number=one.number, breakpoints=self._plain())
            why = answer.get(one.rank, {}).get("why", "")
            if why and not why.startswith(_FOR_REPLICAS):
                return f"rank {one.rank}, {why}"
        return ""
