"""The ranks that communicate together."""

from __future__ import annotations

from dataclasses import dataclass

import torch.distributed as dist


@dataclass(frozen=True, slots=True)
class RankGroup:
    """A process group, seen from one of its ranks.

    Attributes:
        rank: this process's position in the group.
        ranks: global ranks in the order of the group.
        process_group: PyTorch's group; None for a group of one that needs no communication.
    """

    rank: int = 0
    ranks: tuple[int, ...] = (0,)
    process_group: dist.ProcessGroup | None = None

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)

    @property
    def name(self) -> str:
        """The name of the group in events."""
        return self.process_group.group_name if self.process_group is not None else ""

    @property
    def others(self) -> tuple[int, ...]:
        """Global ranks of the others in the group."""
        return self.ranks[: self.rank] + self.ranks[self.rank + 1 :]

    @property
    def next(self) -> int:
        """Global rank to which this rank sends in a ring."""
        return self.ranks[(self.rank + 1) % self.size]

    @property
    def previous(self) -> int:
        """Global rank from which this rank receives in a ring."""
        return self.ranks[(self.rank - 1) % self.size]


def world() -> RankGroup:
    """All ranks of this program; a group of one if `torch.distributed` is not initialized."""
    if not (dist.is_available() and dist.is_initialized()):
        return RankGroup()
    default = dist.group.WORLD
    assert default is not None
    return RankGroup(dist.get_rank(), tuple(range(dist.get_world_size())), default)
