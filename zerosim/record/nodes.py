"""The node of each rank of a trace, and the link class between two ranks.

Nodes are filled one after another, as launchers do and as `EngineConfig.ranks_per_node` defines; a
run with a different placement is not divided into nodes.
"""

from __future__ import annotations

from collections import Counter

from zerosim.base.tiers import Link, link_of_message
from zerosim.record.store import Trace


def ranks_per_node(trace: Trace) -> int:
    """Ranks of a node: as configured in the engine, else as launched, else all ranks of the run.

    Returns:
        At least 1; all ranks if nodes have unequal numbers of ranks, or ranks that are not
        consecutive.
    """
    everyone = trace.manifest.num_ranks
    configured = trace.manifest.config.get("ranks_per_node")
    if isinstance(configured, int) and configured > 0:
        return configured
    counts = Counter(rank.header.node for rank in trace.ranks)
    size = everyone // len(counts)
    fills = all(
        rank.header.node - trace.ranks[0].header.node
        == rank.rank // size - trace.ranks[0].rank // size
        for rank in trace.ranks
    )
    return size if fills and set(counts.values()) == {size} else everyone


def node_of(trace: Trace, rank: int) -> int:
    """The node of a rank, counted from 0."""
    return rank // ranks_per_node(trace)


def num_nodes(trace: Trace) -> int:
    """Number of nodes, K."""
    return -(-trace.manifest.num_ranks // ranks_per_node(trace))


def link_between(trace: Trace, source: int, target: int) -> Link:
    """The link class of a message between two ranks of a trace."""
    return link_of_message(source, target, ranks_per_node(trace))
