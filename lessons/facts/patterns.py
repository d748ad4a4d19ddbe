"""Patterns of messages: trees and rings by traffic, by rounds and by size.

Traffic of Gloo's native calls is measured by the kernel around each call; durations are predicted:
rounds times a latency and bytes over a bandwidth (alpha and beta), and for NCCL by its own model.
"""

from __future__ import annotations

from zerosim.base.errors import ConfigError
from zerosim.lessons.facts.base import Base
from zerosim.predict.placement import load_machine
from zerosim.predict.placement.collective_steps import CollectiveSteps, steps
from zerosim.predict.placement.nccl import RanksOnNodes, choices
from zerosim.schema.events import Algorithm, Op

_ALGORITHMS = {"tree": Algorithm.GLOO, "chain": Algorithm.RING}
"""Of a broadcast: Gloo's is a binomial tree, that of zerosim's ring a chain."""


class Patterns(Base):
    """Facts of collectives by themselves."""

    def kernel_share(self, run: str, op: str, rank: int = 0) -> float:
        """The kernel's count for a rank's one native call, in payloads, without headers.

        Raises:
            ConfigError: there is no such call, or it was not measured alone.
        """
        sent, payload = self._measured(run, op, rank)
        return round(sent / payload, 2)

    def kernel_shares(self, run: str, op: str) -> list[float]:
        """The same of each rank."""
        return [self.kernel_share(run, op, rank) for rank in range(self.num_ranks(run))]

    def kernel_bytes(self, run: str, op: str, rank: int = 0) -> int:
        """The same in bytes, with headers."""
        return self._measured(run, op, rank)[0]

    def payload_bytes(self, run: str, op: str) -> int:
        """The whole buffer of a call."""
        return self._measured(run, op, 0)[1]

    def tree(self, num_ranks: int) -> list[list[tuple[int, int]]]:
        """Sender and receiver in each round of a binomial tree, as Gloo builds it from rank 0."""
        return [
            [(rank, rank + known) for rank in range(min(known, num_ranks - known))]
            for known in (1 << number for number in range(self.rounds("tree", num_ranks)))
        ]

    def rounds(self, algorithm: str, num_ranks: int) -> int:
        """Number of consecutive messages of a broadcast, by a "tree" or a "chain"."""
        return self._steps(algorithm, num_ranks).messages

    def broadcast_us(
        self, algorithm: str, num_ranks: int, payload: float, latency_us: float, gigabytes: float
    ) -> float:
        """Predicted: a broadcast over links with one latency and bandwidth, in GB/s."""
        found = self._steps(algorithm, num_ranks)
        return found.time_ns(payload, latency_us * 1e3, gigabytes * 1e9) / 1e3

    def crossing_bytes(self, num_ranks: int, latency_us: float, gigabytes: float) -> float:
        """The payload from which on a chain is faster than a tree, predicted."""
        tree, chain = (self._steps(each, num_ranks) for each in ("tree", "chain"))
        rounds = chain.messages - tree.messages
        return rounds * latency_us * gigabytes * 1e3 / (tree.payloads - chain.payloads)

    def nccl_us(self, machine: str, num_nodes: int, payload: int, algorithm: str) -> float:
        """Predicted: an all-reduce of all GPUs of some nodes, by NCCL's "ring" or "tree"."""
        found = load_machine(machine)
        assert found.ranks_per_node is not None, machine
        layout = RanksOnNodes(num_nodes * found.ranks_per_node, num_nodes)
        return min(
            one.time_us
            for one in choices(found, Op.ALL_REDUCE, layout, payload)
            if one.algorithm == algorithm
        )

    def _steps(self, algorithm: str, num_ranks: int) -> CollectiveSteps:
        return steps(Op.BROADCAST, _ALGORITHMS[algorithm], num_ranks)

    def _measured(self, run: str, op: str, rank: int) -> tuple[int, int]:
        """The kernel's count for a rank's calls of an operation, and their payload."""
        table = self._run(run).traffic(rank=rank, op=op)
        sent, payload = table.total("wire_sent_bytes"), table.total("payload_bytes")
        if sent is None or not payload:
            raise ConfigError(f"{run}: no {op} of rank {rank} was measured alone")
        return sent, payload
