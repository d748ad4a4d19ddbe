"""The number of consecutive messages in a collective, and the payload fraction that a rank sends.

The time of a collective is the number of latencies plus the bytes over the link's bandwidth (alpha
and beta). Sources: Thakur, Rabenseifner and Gropp 2005; nccl-tests, doc/PERFORMANCE.md; for Gloo
its own algorithms, as `theory.gloo` counts their bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Algorithm, Op


@dataclass(frozen=True, slots=True)
class CollectiveSteps:
    """The steps of a collective.

    Attributes:
        messages: consecutive messages, each with a latency.
        payloads: traffic of the busiest rank, as a fraction of the payload.
    """

    messages: int
    payloads: float

    def time_ns(self, payload_bytes: float, latency_ns: float, bytes_per_second: float) -> float:
        """The time over one link, ns."""
        return self.messages * latency_ns + self.payloads * payload_bytes / bytes_per_second * 1e9


def steps(op: Op, algorithm: Algorithm, num_ranks: int) -> CollectiveSteps:
    """The steps of a collective; for backends other than Gloo, those of rings and pairs.

    Raises:
        ConfigError: an operation that zerosim does not know.
    """
    if num_ranks == 1:
        return CollectiveSteps(0, 0.0)
    own = _GLOO if algorithm is Algorithm.GLOO else {}
    found = own.get(op, _USUAL.get(op))
    if found is None:
        raise ConfigError(f"the duration of {op} is unknown: zerosim has no law for its traffic")
    return found(num_ranks)


def hierarchical(
    op: Op, ranks_per_node: int, num_nodes: int
) -> tuple[CollectiveSteps, CollectiveSteps]:
    """A collective in two levels: within each node, and across nodes with the rest.

    Each rank exchanges 1 / ranks_per_node of the payload with those of the same index on other
    nodes, so all links between nodes are busy at once (scaling-book, gpus.md).

    Args:
        op: all-reduce, all-gather or reduce-scatter.

    Returns:
        Within a node, and across, both in parts of the whole payload.
    """
    across = steps(op, Algorithm.RING, num_nodes)
    part = CollectiveSteps(across.messages, across.payloads / ranks_per_node)
    return steps(op, Algorithm.RING, ranks_per_node), part


_Rule = Callable[[int], CollectiveSteps]


def _rounds(num_ranks: int) -> int:
    return (num_ranks - 1).bit_length()


def _passes(count: int) -> _Rule:
    """A number of rounds of a ring, with a part of the payload per hop."""
    return lambda n: CollectiveSteps(count * (n - 1), count * (n - 1) / n)


def _chain(num_ranks: int) -> CollectiveSteps:
    """A pipelined chain along a ring: the last rank has the whole payload soon after the first."""
    return CollectiveSteps(num_ranks - 1, 1.0)


def _binomial(num_ranks: int) -> CollectiveSteps:
    return CollectiveSteps(_rounds(num_ranks), _rounds(num_ranks))


_USUAL: dict[Op, _Rule] = {
    Op.ALL_REDUCE: _passes(2),
    Op.ALL_GATHER: _passes(1),
    Op.REDUCE_SCATTER: _passes(1),
    Op.ALL_TO_ALL: _passes(1),
    Op.GATHER: _passes(1),
    Op.SCATTER: _passes(1),
    Op.BROADCAST: _chain,
    Op.REDUCE: _chain,
    Op.SEND: lambda _: CollectiveSteps(1, 1.0),
    Op.RECEIVE: lambda _: CollectiveSteps(1, 1.0),
    Op.BARRIER: lambda n: CollectiveSteps(_rounds(n), 0.0),
}
_GLOO: dict[Op, _Rule] = {
    Op.REDUCE_SCATTER: _passes(2),  # Gloo does a whole all-reduce
    Op.BROADCAST: _binomial,
    Op.REDUCE: lambda n: CollectiveSteps(
        n, 2 * (n - 1) / n
    ),  # a reduce-scatter, then one part from each rank to the root
}
