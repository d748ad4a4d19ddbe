"""One collective of a step, as theory plans it: who calls it, of what size, and what it costs.

May import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.algorithms import Cost, cost
from zerosim.theory.nodes import Span, link_shares, members
from zerosim.theory.workload import Workload
from zerosim.tiers import Link, link_of_message


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The same collective, called one or more times in a step.

    Attributes:
        num_elements: of the whole buffer of one call.
        element_bytes: bytes of one element, without its share of a scale; half a byte for int4.
        times: how often it is called.
        span: who takes part.
        quantized_bytes: what one buffer of quantized elements occupies with its scales; None if
            its elements are not quantized.
        peer: the root of a broadcast, the other end of a message; None for the rest.
        carrier: who carries it out, whoever carries out the others; None for the same.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_elements: int
    element_bytes: int | Fraction
    times: int = 1
    span: Span = Span.WORLD
    quantized_bytes: int | None = None
    peer: int | None = None
    carrier: Algorithm | None = None

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer of one of these calls."""
        if self.quantized_bytes is not None:
            return self.quantized_bytes
        return int(self.num_elements * self.element_bytes)

    @property
    def payload_bytes(self) -> int:
        """Size of the buffers of all these calls together."""
        return self.buffer_bytes * self.times

    def cost(self, workload: Workload, rank: int, algorithm: Algorithm) -> Cost:
        """What all these calls make `rank` send and receive.

        Raises:
            ConfigError: the algorithm's exact cost is not known, or there is no such rank.
        """
        group = members(workload, self.span, rank)
        is_ours = algorithm is Algorithm.RING and self.op is Op.ALL_TO_ALL
        elements, size = self.num_elements, self.element_bytes
        if self.quantized_bytes is not None or isinstance(size, Fraction):
            elements, size = self.buffer_bytes, 1
        one = cost(
            Algorithm.PAIRWISE if is_ours else self.carrier or algorithm,
            self.op,
            len(group),
            group.index(rank),
            elements,
            size,
            root=0 if self.peer is None else group.index(self.peer),
            chunk_bytes=workload.chunk_bytes,
        )
        return one * self.times

    def sent_by_link(self, workload: Workload, rank: int) -> dict[Link, int]:
        """What zerosim's own messages make `rank` send for all these calls over each link.

        Of a call that the backend carries out, only what stays within a node is known by link: the
        rest is left out.
        """
        sent = self.cost(workload, rank, Algorithm.RING).sent_bytes
        shares = link_shares(workload, self.span, self.op, rank)
        if self.op is Op.SEND and self.peer is not None:
            shares = {link_of_message(rank, self.peer, workload.world_node_size): Fraction(1)}
        if self.carrier is not None:
            group = members(workload, self.span, rank)
            nodes = {peer // workload.world_node_size for peer in group}
            shares = {Link.NODE: Fraction(1)} if len(nodes) == 1 else {}
        return {link: int(sent * share) for link, share in shares.items() if sent}
