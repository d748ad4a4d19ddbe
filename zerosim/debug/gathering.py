"""Stops running ranks, all of them at the beginning of the same iteration.

Each stops at its own next forward. A rank that others are waiting for, because they are an
iteration ahead, continues to the next one. There, earlier calls have ended, and all per-iteration
counters of the ranks restart.
"""

from __future__ import annotations

from collections.abc import Callable

from zerosim.debug.link import HeldThread
from zerosim.debug.outcomes import Breakpoint, StepEnd, Why
from zerosim.debug.ranks import Ranks
from zerosim.schema.events import Kind, Phase
from zerosim.schema.stands import FORWARD

_BEGINNING = [Breakpoint(0, FORWARD).to_plain()]


def gather(ranks: Ranks, is_interrupted: Callable[[], bool]) -> StepEnd:
    """Wait until all ranks are paused at the start of the same iteration; they run until then.

    Args:
        is_interrupted: whether they stop at their next events instead, wherever these are.
    """
    while True:
        problem = ranks.settle(ranks.here, is_interrupted)
        if problem is not None:
            return problem
        if is_interrupted():
            ranks.stop()
            return ranks.settle(ranks.here) or StepEnd(Why.PAUSED)
        standing = ranks.standing()
        begun = {one.rank: one.stand.iteration for one in standing if _is_beginning(one)}
        if len(begun) == len(ranks.here) and len(set(begun.values())) == 1:
            return StepEnd(Why.REACHED)
        others = [one for one in standing if not _is_beginning(one)]
        if others:
            ranks.door.let_through(others)
            continue
        behind = {rank for rank, number in begun.items() if number < max(begun.values())}
        chosen = behind or set(begun)
        ranks.let_run([link for link in ranks.links if link.rank in chosen], _BEGINNING)


def _is_beginning(one: HeldThread) -> bool:
    stand = one.stand
    return stand.kind is Kind.MARK and stand.phase is Phase.FORWARD and not stand.micro_step
