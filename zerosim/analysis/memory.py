"""The memory of one rank over time: bytes by role at each sample, and what the allocator says.

A sample says what changed, so the state at a sample is the last word on each (role, unit).
`timeline` turns a rank's samples into arrays, one column a sample, in linear time. Beside the
roles stands what PyTorch's allocator counted; what the roles do not explain of it is `other`.
Imports numpy, zerosim's L0 and record. No torch.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zerosim.events import Event, Kind, Phase
from zerosim.memory import MODEL_STATES, MemorySample, Moment, Role
from zerosim.record import RankTrace

Bytes = NDArray[np.int64]
Holders = dict[tuple[Role, str], int]

ROLES = tuple(role for role in Role if role is not Role.OTHER)
"""The roles that are recorded, in the order in which they are shown."""
NOT_MEASURED = -1
"""In an array, in place of what the allocator did not count."""
STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What one rank held, at each of its samples.

    Attributes:
        samples: by number.
        events: that samples belong to, by id.
        by_role: shape (number of `ROLES`, number of samples).
        known: all roles together at each sample.
        allocated: what the allocator says is alive, with what existed before it was watched;
            `NOT_MEASURED` where it was not asked.
        between: likewise the most since the sample before that it was asked at.
        holders: for each role and unit the samples that changed it, and the new bytes.
    """

    rank: int
    samples: tuple[MemorySample, ...]
    events: dict[int, Event]
    by_role: Bytes
    known: Bytes
    allocated: Bytes
    between: Bytes
    holders: dict[tuple[Role, str], tuple[Bytes, Bytes]]

    def at(self, position: int) -> Holders:
        """What is alive at a sample, by role and unit; nothing before the first one.

        Args:
            position: number of the sample; -1 for before all of them.
        """
        state: Holders = {}
        for place, (numbers, sizes) in self.holders.items():
            index = int(np.searchsorted(numbers, position, side="right")) - 1
            if index >= 0 and sizes[index]:
                state[place] = int(sizes[index])
        return state

    def roles_at(self, position: int) -> dict[Role, int]:
        """What each recorded role has at a sample."""
        return {role: int(self.by_role[row, position]) for row, role in enumerate(ROLES)}

    def event_of(self, position: int) -> Event | None:
        """The event at whose beginning or end a sample was taken."""
        number = self.samples[position].event
        return None if number is None else self.events[number]

    def is_beside(self, position: int) -> bool:
        """True if the thread of the collectives took this sample, beside the computation.

        Such a sample may show two moments at once: what was freed and what came instead.
        """
        event = self.event_of(position)
        return event is not None and event.kind is not Kind.COMPUTE

    @property
    def is_measured(self) -> bool:
        """True if the allocator was asked at some sample."""
        return bool((self.allocated != NOT_MEASURED).any())

    def other(self, position: int) -> int | None:
        """What the roles do not explain at a sample; None if it was not measured."""
        allocated = int(self.allocated[position])
        return None if allocated == NOT_MEASURED else allocated - int(self.known[position])

    def alive(self) -> Bytes:
        """All that is alive at each sample: by the allocator if it was asked, else by the roles."""
        return np.where(self.allocated == NOT_MEASURED, self.known, self.allocated)

    def model_states(self) -> Bytes:
        """The model states together at each sample."""
        rows = [ROLES.index(role) for role in MODEL_STATES]
        return np.asarray(self.by_role[rows].sum(axis=0), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was alive.

    Attributes:
        position: the sample; of a peak between two, the later one.
        bytes: alive there.
    """

    position: int
    bytes: int


def timeline(rank: RankTrace) -> Timeline:
    """One rank's memory over time.

    Args:
        rank: with at least one memory sample.
    """
    samples = rank.memory_samples
    changes: dict[tuple[Role, str], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for number, sample in enumerate(samples):
        for holding in sample.changes:
            numbers, sizes = changes[holding.role, holding.unit]
            numbers.append(number)
            sizes.append(holding.bytes)
    holders = {
        place: (_array(numbers), _array(sizes)) for place, (numbers, sizes) in changes.items()
    }
    by_role = np.zeros((len(ROLES), len(samples)), dtype=np.int64)
    for (role, _), (places, held) in holders.items():
        if role in ROLES:
            np.add.at(by_role[ROLES.index(role)], places, np.diff(held, prepend=0))
    by_role = by_role.cumsum(axis=1)
    wanted = {sample.event for sample in samples if sample.event is not None}
    allocated, between = _allocated(rank)
    return Timeline(
        rank=rank.rank,
        samples=samples,
        events={event.id: event for event in rank.events if event.id in wanted},
        by_role=by_role,
        known=np.asarray(by_role.sum(axis=0), dtype=np.int64),
        allocated=allocated,
        between=between,
        holders=holders,
    )


def _array(numbers: list[int]) -> Bytes:
    return np.array(numbers, dtype=np.int64)


def _allocated(rank: RankTrace) -> tuple[Bytes, Bytes]:
    samples = rank.memory_samples
    unrecorded = _array([sample.unrecorded_bytes for sample in samples])
    direct = [NOT_MEASURED if (own := s.allocated_bytes) is None else own for s in samples]
    allocated, between = _array(direct), np.full(len(samples), NOT_MEASURED, dtype=np.int64)
    for row in rank.allocations:
        numbers = _array(list(row.numbers))
        allocated[numbers] = row.allocated_bytes
        between[numbers] = row.peak_bytes
    for counted in (allocated, between):
        counted[counted != NOT_MEASURED] += unrecorded[counted != NOT_MEASURED]
    return allocated, between


def states(line: Timeline) -> Iterator[tuple[int, Holders]]:
    """Every sample with what is alive at it; the state is the same object, changed in between."""
    state: Holders = {}
    for number, sample in enumerate(line.samples):
        for holding in sample.changes:
            if holding.bytes:
                state[holding.role, holding.unit] = holding.bytes
            else:
                state.pop((holding.role, holding.unit), None)
        yield number, state


def states_of(line: Timeline, role: Role) -> Iterator[tuple[int, dict[str, int], bool]]:
    """Every sample with what one role has, by unit, and whether that changed; the same object."""
    state: dict[str, int] = {}
    for number, sample in enumerate(line.samples):
        changed = False
        for holding in sample.changes:
            if holding.role is role:
                changed = True
                state[holding.unit] = holding.bytes
                if not holding.bytes:
                    del state[holding.unit]
        yield number, state, changed


def in_steps(line: Timeline, iterations: Iterable[int] | None = None) -> Bytes:
    """The samples within iterations, without set-up and what came between.

    Args:
        iterations: only of these; of all by default.
    """
    wanted = None if iterations is None else set(iterations)
    return _array(
        [
            number
            for number, sample in enumerate(line.samples)
            if sample.phase in STEP_PHASES
            and sample.iteration >= 0
            and (wanted is None or sample.iteration in wanted)
        ]
    )


def peak(line: Timeline, positions: Bytes) -> Peak | None:
    """The sample among `positions` at which the most was alive, the first of several."""
    if not len(positions):
        return None
    alive = line.alive()[positions]
    best = int(alive.argmax())
    return Peak(int(positions[best]), int(alive[best]))


def peak_between(line: Timeline, positions: Bytes) -> Peak | None:
    """The most that the allocator counted between two samples; None if it was not measured."""
    measured = positions[line.between[positions] != NOT_MEASURED]
    if not len(measured):
        return None
    best = int(line.between[measured].argmax())
    return Peak(int(measured[best]), int(line.between[measured][best]))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """How far the roles and the allocator are apart.

    Attributes:
        num_samples: at which the allocator was asked.
        position: the sample with the largest difference.
        bytes: what the roles do not explain there; negative if they have too much.
        least_bytes: the smallest difference of all samples.
    """

    num_samples: int
    position: int
    bytes: int
    least_bytes: int


def disagreement(line: Timeline) -> Disagreement | None:
    """Where the roles and the allocator disagree most; None if the allocator was not asked."""
    measured = np.flatnonzero(line.allocated != NOT_MEASURED)
    if not len(measured):
        return None
    other = line.allocated[measured] - line.known[measured]
    worst = int(np.abs(other).argmax())
    return Disagreement(len(measured), int(measured[worst]), int(other[worst]), int(other.min()))


def updates_begin(line: Timeline, iterations: Iterable[int]) -> dict[int, int]:
    """The sample that shows what is alive when an iteration's update begins, by iteration.

    Nothing is written where nothing changed, so it may be the last one of backward, or of an
    earlier iteration; -1 if nothing was written until then.
    """
    steps = in_steps(line)
    of_samples = [line.samples[number].iteration for number in steps]
    found = {}
    for iteration in iterations:
        first, end = bisect_left(of_samples, iteration), bisect_right(of_samples, iteration)
        found[iteration] = int(steps[end]) - 1 if end < len(steps) else len(line.samples) - 1
        for number in steps[first:end]:
            sample = line.samples[number]
            if sample.phase is Phase.UPDATE:
                is_border = sample.moment is Moment.PHASE
                found[iteration] = int(number) - (0 if is_border else 1)
                break
    return found


def whole_iteration(line: Timeline, iteration: int) -> Bytes:
    """The samples of an iteration, and the first one after it."""
    positions = in_steps(line, [iteration])
    if len(positions) and positions[-1] + 1 < len(line.samples):
        positions = np.append(positions, positions[-1] + 1)
    return positions
