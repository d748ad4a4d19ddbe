"""The samples of a line: those of an iteration or of an update's start, and their contents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np

from zerosim.analysis.memory.line import Bytes, Holders, Timeline
from zerosim.schema.events import STEP_PHASES, Phase
from zerosim.schema.memory import Moment, Role


def states(line: Timeline) -> Iterator[tuple[int, Holders]]:
    """Every sample with its live bytes; the state is one object that the iteration changes."""
    state: Holders = {}
    for number, sample in enumerate(line.samples):
        for holding in sample.changes:
            if holding.tier is not line.tier or holding.role is Role.OTHER:
                continue
            if holding.bytes:
                state[holding.role, holding.unit] = holding.bytes
            else:
                state.pop((holding.role, holding.unit), None)
        yield number, state


def states_of(line: Timeline, role: Role) -> Iterator[tuple[int, dict[str, int], bool]]:
    """Every sample with one role's bytes by unit, in one object, and whether they changed."""
    state: dict[str, int] = {}
    for number, sample in enumerate(line.samples):
        changed = False
        for holding in sample.changes:
            if holding.role is role and holding.tier is line.tier:
                changed = True
                state[holding.unit] = holding.bytes
                if not holding.bytes:
                    del state[holding.unit]
        yield number, state, changed


def in_steps(line: Timeline, iterations: Iterable[int] | None = None) -> Bytes:
    """The samples within iterations, without set-up and intervals between iterations.

    Args:
        iterations: only these; all by default.
    """
    wanted = None if iterations is None else set(iterations)
    return np.array(
        [
            number
            for number, sample in enumerate(line.samples)
            if sample.phase in STEP_PHASES
            and sample.iteration >= 0
            and (wanted is None or sample.iteration in wanted)
        ],
        dtype=np.int64,
    )


def in_training(line: Timeline, iterations: Iterable[int] | None = None) -> Bytes:
    """The samples within iterations, with the state after each; for a program without any, all
    samples.
    """
    positions = in_steps(line, iterations)
    if not len(positions):
        return np.arange(len(line.samples), dtype=np.int64)
    left = positions[positions + 1 < len(line.samples)] + 1
    return np.union1d(positions, left)


def updates_begin(line: Timeline, iterations: Iterable[int]) -> dict[int, int]:
    """The sample with the live bytes at the start of an iteration's update, by iteration.

    It is the sample at the beginning of the phase. An
    optimizer that computes within its step (LBFGS) begins to update after its backwards. Without
    such a sample, the last one before it is used, of backward or of an earlier iteration; -1
    without any.
    """
    borders: dict[int, int] = {}
    gone_back: set[int] = set()
    for number, sample in enumerate(line.samples):
        if sample.moment is not Moment.PHASE:
            continue
        if sample.phase is Phase.BACKWARD:
            gone_back.add(sample.iteration)
        elif sample.phase is Phase.UPDATE:
            if sample.iteration in gone_back:
                borders[sample.iteration] = number
            borders.setdefault(sample.iteration, number)
            gone_back.discard(sample.iteration)
    steps = in_steps(line)
    of_samples = [line.samples[number].iteration for number in steps]
    found = {}
    for iteration in iterations:
        if iteration in borders:
            found[iteration] = borders[iteration]
            continue
        first, end = bisect_left(of_samples, iteration), bisect_right(of_samples, iteration)
        found[iteration] = int(steps[end]) - 1 if end < len(steps) else len(line.samples) - 1
        for number in steps[first:end]:
            if line.samples[number].phase is Phase.UPDATE:
                found[iteration] = int(number) - 1
                break
    return found


def whole_iteration(line: Timeline, iteration: int) -> Bytes:
    """The samples of an iteration, and the first one after it."""
    positions = in_steps(line, [iteration])
    if len(positions) and positions[-1] + 1 < len(line.samples):
        positions = np.append(positions, positions[-1] + 1)
    return positions
