"""A movement of a step: a collective, a message, or a copy between the tiers of a rank.

Whether planned by theory or made by a program, it is the same record; the implementation determines
the bytes that a rank sends for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.tiers import Link, Tier, link_of_copy, link_of_message
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.algorithms import OF_A_RING, Cost, cost
from zerosim.theory.messages import DEFAULT_CHUNK_BYTES
from zerosim.theory.nodes import Span, link_shares

MESSAGES = (Op.SEND, Op.RECEIVE)
PASSES = {
    Op.ALL_REDUCE: 2,
    Op.ALL_GATHER: 1,
    Op.REDUCE_SCATTER: 1,
    Op.BROADCAST: 1,
    Op.REDUCE: 1,
}
"""How often a buffer crosses a ring, averaged over ranks."""
_SHARES = PASSES | {Op.ALL_TO_ALL: 1}
"""The same with all-to-all, where each rank sends all parts of its buffer but its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The same collective, message or copy, made one or more times in a step by one rank.

    Attributes:
        op: None for a copy.
        ranks: global ranks of its group; for a message, its two ends; for a copy, empty.
        elements: elements of the whole buffer, as counted by `Event.elements`.
        element_bytes: bytes of an element, without its share of a scale; half a byte for int4.
        times: number of calls.
        root: global rank of the root, if the operation has one; for a message, the other end.
        unit: the communicating bucket, module or stage.
        is_cut: whether the system splits it into several calls as it fills its buckets; then
            their sum counts.
        parts, received_parts: as in `Event`.
        span: its group among those of ZeRO.
        quantized_bytes: size of one buffer of quantized elements with its scales; None if its
            elements are not quantized.
        carrier: its own implementation; None if it is that of the others.
        chunk_bytes: largest message of zerosim's ring.
        origin, target: tiers of a copy.
    """

    phase: Phase
    purpose: Purpose
    op: Op | None = None
    ranks: tuple[int, ...] = ()
    elements: int
    element_bytes: int | Fraction
    times: int = 1
    root: int | None = None
    unit: str = ""
    is_cut: bool = False
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()
    span: Span = Span.WORLD
    quantized_bytes: int | None = None
    carrier: Algorithm | None = None
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    origin: Tier | None = None
    target: Tier | None = None

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer of one of them."""
        if self.quantized_bytes is not None:
            return self.quantized_bytes
        return int(self.elements * self.element_bytes)

    @property
    def payload_bytes(self) -> int:
        """Size of the buffers of all calls together."""
        return self.buffer_bytes * self.times

    @property
    def link(self) -> Link | None:
        """The link of a copy; None for traffic between ranks."""
        if self.origin is None or self.target is None:
            return None
        return link_of_copy(self.origin, self.target)

    def ring_share(self) -> Fraction:
        """Bytes that a rank of a ring sends on average, exact."""
        if self.op is Op.SEND:
            return Fraction(self.payload_bytes)
        if self.op not in _SHARES:
            return Fraction(0)
        num_ranks = len(self.ranks)
        return Fraction(_SHARES[self.op] * self.payload_bytes * (num_ranks - 1), num_ranks)

    def cost(self, rank: int, algorithm: Algorithm) -> Cost:
        """Bytes that `rank` sends and receives for all calls, with an algorithm.

        An operation that zerosim's ring lacks counts as its own messages if quantized, else as
        implemented by Gloo. A copy sends nothing.

        Raises:
            ConfigError: the algorithm's exact cost is not known.
        """
        if self.op is None:
            return Cost()
        if self.carrier is not None:
            algorithm = self.carrier
        elif algorithm is Algorithm.RING and self.op not in OF_A_RING:
            is_ours = self.quantized_bytes is not None
            algorithm = Algorithm.PAIRWISE if is_ours else Algorithm.GLOO
        elements, size = self.elements, self.element_bytes
        if self.quantized_bytes is not None or isinstance(size, Fraction):
            elements, size = self.buffer_bytes, 1
        is_rooted = self.root is not None and self.op not in MESSAGES
        one = cost(
            algorithm,
            self.op,
            len(self.ranks),
            self.ranks.index(rank),
            elements,
            size,
            root=self.ranks.index(self.root) if is_rooted and self.root is not None else 0,
            chunk_bytes=self.chunk_bytes,
            parts=self.parts,
            received_parts=self.received_parts,
        )
        return one * self.times

    def moved_by_link(self, rank: int, ranks_per_node: int) -> dict[Link, int]:
        """Bytes that `rank` sends over each link in zerosim's own messages, or copies.

        For a native call, only traffic within a node is known by link: the rest is omitted.

        Args:
            ranks_per_node: 1 or more.
        """
        if self.link is not None:
            return {self.link: self.payload_bytes}
        assert self.op is not None, "what is no copy has an operation"
        sent = self.cost(rank, Algorithm.RING).sent_bytes
        if not sent:
            return {}
        if self.op is Op.SEND and self.root is not None:
            return {link_of_message(rank, self.root, ranks_per_node): sent}
        if self.carrier is not None:
            nodes = {peer // ranks_per_node for peer in self.ranks}
            return {Link.NODE: sent} if len(nodes) == 1 else {}
        shares = link_shares(self.ranks, self.op, rank, ranks_per_node)
        return {link: int(sent * share) for link, share in shares.items()}
