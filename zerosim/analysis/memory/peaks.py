"""The peak of live memory, and the difference between roles and allocator.

`peak` is the only definition of a rank's peak and its position: the command line, the plot, Replay,
Compare, the pytest plugin and lessons all use it. No torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.memory.line import NOT_MEASURED, ROLES, Bytes, Timeline
from zerosim.schema.memory import Role


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of live memory.

    Attributes:
        position: the sample; for a peak between two, the later one.
        bytes: live bytes there.
    """

    position: int
    bytes: int


def peak(line: Timeline, positions: Bytes, roles: Collection[Role] = ()) -> Peak | None:
    """The sample among `positions` with the most live bytes, the first of several.

    Args:
        positions: the samples to consider; without any, None is returned.
        roles: only these roles; by default all live bytes.
    """
    if not len(positions):
        return None
    held = line.by_role[[ROLES.index(role) for role in roles]].sum(axis=0)
    alive = (held if roles else line.alive())[positions]
    best = int(alive.argmax())
    return Peak(int(positions[best]), int(alive[best]))


def peak_between(line: Timeline, positions: Bytes) -> Peak | None:
    """The allocator's largest peak between two samples; None if it was not measured."""
    measured = positions[line.between[positions] != NOT_MEASURED]
    if not len(measured):
        return None
    best = int(line.between[measured].argmax())
    return Peak(int(measured[best]), int(line.between[measured][best]))


@dataclass(frozen=True, slots=True)
class AllocatorGap:
    """The difference between roles and allocator.

    Attributes:
        num_samples: number of samples with an allocator count.
        position: the sample with the largest difference.
        bytes: the unexplained bytes there; negative if the roles have too much.
        least_bytes: the smallest difference over all samples.
    """

    num_samples: int
    position: int
    bytes: int
    least_bytes: int


def disagreement(line: Timeline) -> AllocatorGap | None:
    """Where roles and allocator differ most; None if the allocator was not queried."""
    measured = np.flatnonzero(line.allocated != NOT_MEASURED)
    if not line.was_asked:
        return None
    other = line.allocated[measured] - line.known[measured]
    worst = int(np.abs(other).argmax())
    return AllocatorGap(len(measured), int(measured[worst]), int(other[worst]), int(other.min()))
