"""On which node each rank of a trace was, and so over what two ranks exchange bytes.

Nodes are filled one after another, as launchers do and as `EngineConfig.ranks_per_node` says; a run
that puts them together in another way is not told apart by node.
"""

from __future__ import annotations

from collections import Counter

from zerosim.base.tiers import Link, link_of_message
from zerosim.record.store import Trace


def ranks_per_node(trace: Trace) -> int:
    """Ranks of a node: as the engine was configured, else as launched, else all ranks of the run.

    Returns:
        1 or more; all ranks if the nodes have not as many each, or ranks that are no neighbours.
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
    """K."""
    return -(-trace.manifest.num_ranks // ranks_per_node(trace))


def link_between(trace: Trace, source: int, target: int) -> Link:
    """What a message between two ranks of a trace goes over."""
    return link_of_message(source, target, ranks_per_node(trace))
