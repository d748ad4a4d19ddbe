"""Subgroups: ranks of one node, and ranks at the same index of each node.

Nodes of P ranks are filled one after another in the order of the group:

    N = 4, P = 2        node 0: ranks 0, 1      node 1: ranks 2, 3
    neighbours          0, 1  and  2, 3
    counterparts        0, 2  and  1, 3

PyTorch's groups are created once and then shared: a process keeps them until it leaves its process
group.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch.distributed as dist

from zerosim.base.config.checks import require_divisor
from zerosim.base.errors import ConfigError
from zerosim.train.collectives.group import RankGroup

_LAUNCHED = "LOCAL_WORLD_SIZE"
"""The environment variable in which PyTorch's launchers give the number of ranks per node."""

_made: WeakKeyDictionary[dist.ProcessGroup, dict[tuple[int, ...], dist.ProcessGroup]] = (
    WeakKeyDictionary()
)
"""Groups by their world and their ranks."""


def node_size(group: RankGroup, ranks_per_node: int) -> int:
    """Ranks of the group on each node, as configured, else as launched; all if neither is given.

    Args:
        ranks_per_node: ranks per node of the whole program, whose nodes are filled in order; 0 for
            as launched.

    Raises:
        ConfigError: the program's ranks do not fill nodes, or those of the group are not on all of
            its nodes in equal numbers.
    """
    of_node = ranks_per_node or int(os.environ.get(_LAUNCHED, "0"))
    if not of_node:
        return group.size
    of_program = dist.get_world_size() if dist.is_initialized() else group.size
    require_divisor("ranks-per-node", of_node, of_program)
    counts = Counter(rank // of_node for rank in group.ranks)
    if len(set(counts.values())) > 1:
        found = ", ".join(str(count) for count in counts.values())
        raise ConfigError(
            f"ranks-per-node is {of_node}: expected the same number of the "
            f"{group.size} ranks on every node, not {found}"
        )
    return group.size // len(counts)


def neighbours(group: RankGroup, size: int) -> RankGroup:
    """The group of `size` neighbours to which this rank belongs; all ranks of `group` must call.

    Args:
        size: a divisor of the group's size.
    """
    return _own_of(group, [range(first, first + size) for first in range(0, group.size, size)])


def counterparts(group: RankGroup, size: int) -> RankGroup:
    """The ranks at this rank's place in each node of `size`; all ranks of `group` must call.

    Args:
        size: a divisor of the group's size.
    """
    return _own_of(group, [range(first, group.size, size) for first in range(size)])


def _own_of(group: RankGroup, parts: Sequence[range]) -> RankGroup:
    """Create a group for each part, in the same order on all ranks; return this rank's."""
    everywhere = group.process_group is not None and group.size == dist.get_world_size()
    own = RankGroup()
    for positions in parts:
        ranks = tuple(group.ranks[position] for position in positions)
        is_member = group.rank in positions
        made = None
        if len(ranks) == group.size:
            made = group.process_group
        elif len(ranks) > 1 and (is_member or everywhere):
            made = _make(ranks, everywhere=everywhere)
        if is_member:
            own = RankGroup(positions.index(group.rank), ranks, made)
    return own


def _make(ranks: tuple[int, ...], *, everywhere: bool) -> dist.ProcessGroup:
    """PyTorch's group of these ranks, made at the first call.

    Args:
        everywhere: all ranks of the program call this; else only the members.
    """
    whole = dist.group.WORLD
    assert whole is not None, "a group of several ranks without a program of several ranks"
    made = _made.setdefault(whole, {})
    if ranks not in made:
        made[ranks] = dist.new_group(list(ranks), use_local_synchronization=not everywhere)
    return made[ranks]
