"""What stays in a node and what leaves it. Imports `facts.base` and theory."""

from __future__ import annotations

from zerosim.lessons.facts.base import Base
from zerosim.theory import Law, Workload, node_law, ranks_of_node
from zerosim.theory.zeropp import SCALE_BYTES
from zerosim.tiers import Link
from zerosim.verify.configured import config_of, workload_of


class Nodes(Base):
    """Facts of nodes, in bytes of one step as traced."""

    def num_nodes(self, run: str) -> int:
        """K."""
        return self._report(run).num_nodes

    def leaves(self, run: str, phase: str = "", purpose: str = "", node: int = 0) -> int:
        """What the ranks of a node send to other nodes together."""
        ranks = ranks_of_node(self._workload(run), node)
        return sum(self._sent(run, Link.NETWORK, phase, purpose, rank) for rank in ranks)

    def stays(self, run: str, phase: str = "", purpose: str = "", node: int = 0) -> int:
        """What they send to each other."""
        ranks = ranks_of_node(self._workload(run), node)
        return sum(self._sent(run, Link.NODE, phase, purpose, rank) for rank in ranks)

    def node_law(self, run: str) -> float:
        """By the law: what leaves a node in a step, in bytes, without scales or padding."""
        law = self._node_law(run)
        return float(law.sent_bytes)

    def node_payloads(self, run: str) -> float:
        """The same before the share that stays: payloads that cross, in Psi, as in the paper."""
        law = self._node_law(run)
        return float(law.payloads)

    def node_words(self, run: str) -> str:
        """The law in words, such as "3Ψ(N-1)/N"."""
        return self._node_law(run).symbols

    def scale_share(self, run: str, bits: int) -> float:
        """What scales add to quantized elements, as a share of these: 4 bytes for each block."""
        config = config_of(self._recordings.trace(run))
        assert config is not None, run
        block = config.quantization_block
        return SCALE_BYTES * 8 / (block * bits)

    def scale_bytes(self) -> int:
        """What the scale of a block takes."""
        return SCALE_BYTES

    def _node_law(self, run: str) -> Law:
        return node_law(self._workload(run))

    def _workload(self, run: str) -> Workload:
        found = workload_of(self._recordings.trace(run), self._report(run).iteration)
        assert found is not None, run
        return found

    def _sent(self, run: str, link: Link, phase: str, purpose: str, rank: int) -> int:
        return sum(
            row.sent[rank].trace
            for row in self._report(run).links
            if row.link is link and phase in ("", row.phase) and purpose in ("", row.purpose)
        )
