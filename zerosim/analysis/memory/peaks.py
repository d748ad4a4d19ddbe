"""The most that was alive, and how far the roles and the allocator are apart.

`peak` is the one place that says what a rank's peak is, and where: the command line, the plot,
Replay, Compare, the pytest plugin and lessons all ask it. No torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from zerosim.analysis.memory.line import NOT_MEASURED, ROLES, Bytes, Timeline
from zerosim.schema.memory import Role


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that was alive.

    Attributes:
        position: the sample; of a peak between two, the later one.
        bytes: alive there.
    """

    position: int
    bytes: int


def peak(line: Timeline, positions: Bytes, roles: Collection[Role] = ()) -> Peak | None:
    """The sample among `positions` at which the most was alive, the first of several.

    Args:
        positions: which samples count; None is returned if there are none.
        roles: only what these have; by default all that is alive.
    """
    if not len(positions):
        return None
    held = line.by_role[[ROLES.index(role) for role in roles]].sum(axis=0)
    alive = (held if roles else line.alive())[positions]
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
class AllocatorGap:
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


def disagreement(line: Timeline) -> AllocatorGap | None:
    """Where the roles and the allocator disagree most; None if the allocator was not asked."""
    measured = np.flatnonzero(line.allocated != NOT_MEASURED)
    if not line.was_asked:
        return None
    other = line.allocated[measured] - line.known[measured]
    worst = int(np.abs(other).argmax())
    return AllocatorGap(len(measured), int(measured[worst]), int(other[worst]), int(other.min()))
