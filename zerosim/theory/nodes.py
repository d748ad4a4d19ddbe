"""The participants of a collective, and the links of its bytes: within a node or between two.

Nodes are filled one after another: ranks 0 to P - 1 are the first. Messages of a ring go from each
member of its group to the next, so among N ranks in order, one of each node's P sends across its
border, and the others send within.

No source: this is arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from zerosim.base.tiers import Link, link_of_message
from zerosim.schema.events import Op
from zerosim.theory.workload import Workload


class Span(StrEnum):
    """The ranks that communicate together."""

    WORLD = "all ranks"
    SECONDARY = "ranks that keep a secondary partition"
    """S neighbours."""
    NODE = "ranks of a node"
    """P neighbours."""
    ACROSS = "one rank of each node"
    """K ranks at the same place in their nodes."""
    TENSOR = "ranks that compute together"
    """T neighbours of all ranks; each belongs to a different group of N."""


SYMBOLS = {Span.WORLD: "N", Span.SECONDARY: "S", Span.NODE: "P", Span.ACROSS: "K", Span.TENSOR: "T"}


def span_size(workload: Workload, span: Span) -> int:
    """Number of ranks that communicate together."""
    match span:
        case Span.WORLD:
            return workload.num_ranks
        case Span.SECONDARY:
            return workload.config.secondary_partition
        case Span.NODE:
            return workload.node_size
        case Span.ACROSS:
            return workload.num_nodes
        case Span.TENSOR:
            return workload.tensor_parallel


def members(workload: Workload, span: Span, rank: int) -> tuple[int, ...]:
    """The ranks with which `rank` communicates, including itself, in order."""
    size, step = span_size(workload, span), workload.node_size
    return _members(span, size, step, workload.num_ranks, workload.tensor_parallel, rank)


@lru_cache(maxsize=1024)
def _members(
    span: Span, size: int, step: int, num_ranks: int, together: int, rank: int
) -> tuple[int, ...]:
    if span is Span.TENSOR:
        return tuple(range(rank // size * size, rank // size * size + size))
    position, part = divmod(rank, together)
    if span is Span.ACROSS:
        positions = range(position % step, num_ranks, step)
    else:
        positions = range(position // size * size, position // size * size + size)
    return tuple(each * together + part for each in positions)


def link_shares(
    ranks: Sequence[int], op: Op, rank: int, ranks_per_node: int
) -> dict[Link, Fraction]:
    """The fraction of `rank`'s traffic of a collective on each link.

    Args:
        ranks: the participants.
        op: an all-to-all sends an equal part to every other member; messages go to every other
            rank in proportion to the units that it owns; any other operation sends everything to
            the next member.
        ranks_per_node: at least 1.

    Returns:
        Parts that add up to 1; nothing for a group of one.
    """
    others = [peer for peer in ranks if peer != rank]
    if not others:
        return {}
    if op not in (Op.ALL_TO_ALL, Op.SEND):
        others = [ranks[(ranks.index(rank) + 1) % len(ranks)]]
    found: dict[Link, Fraction] = {}
    for peer in others:
        link = link_of_message(rank, peer, ranks_per_node)
        found[link] = found.get(link, Fraction(0)) + Fraction(1, len(others))
    return found


def ranks_of_node(workload: Workload, node: int) -> range:
    """The ranks of a node, counted from 0."""
    first = node * workload.world_node_size
    return range(first, min(first + workload.world_node_size, workload.world_size))
