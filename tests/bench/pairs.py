"""Two ways to do a step, timed in turn, so that a machine's drift falls on both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch.distributed as dist

Step = Callable[[], None]
Around = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of the same number of steps of A and B, taken A B B A A B ...

    Attributes:
        sent_bytes_a, sent_bytes_b: what the kernel sent for one step of each, this rank.
    """

    seconds_a: tuple[float, ...]
    seconds_b: tuple[float, ...]
    sent_bytes_a: int = 0
    sent_bytes_b: int = 0

    @property
    def ratios(self) -> list[float]:
        """A over B, pair by pair."""
        return [a / b for a, b in zip(self.seconds_a, self.seconds_b, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The ratios' first and third quartile."""
        first, _, third = statistics.quantiles(self.ratios, n=4)
        return first, third


def time_pairs(
    step_a: Step,
    step_b: Step,
    num_pairs: int,
    sent_bytes: Callable[[], int] = lambda: 0,
    around_a: Around = nullcontext,
    around_b: Around = nullcontext,
) -> Pairs:
    """Run both in turn on all ranks together.

    Args:
        num_pairs: counted; one more of each warms up.
        sent_bytes: a counter to read before and after a step.
        around_a, around_b: what a step is done in; entered, warmed up with a step and left outside
            of what is timed.
    """
    seconds: dict[str, list[float]] = {"a": [], "b": []}
    sent = {"a": 0, "b": 0}
    warms_up = around_a is not nullcontext or around_b is not nullcontext
    ways = [("a", step_a, around_a), ("b", step_b, around_b)]
    for number in range(num_pairs + 1):
        for name, step, around in ways if number % 2 else reversed(ways):
            with around():
                if warms_up:
                    step()
                before = sent_bytes()
                duration = time_step(step)
                sent[name] = sent_bytes() - before
            if number:
                seconds[name].append(duration)
    return Pairs(tuple(seconds["a"]), tuple(seconds["b"]), sent["a"], sent["b"])


def time_step(step: Step) -> float:
    """Seconds from a moment when all ranks are here until this one has done the step."""
    dist.barrier()
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin
