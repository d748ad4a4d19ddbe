"""The terms of a law: each pass over the parameters, and its movements.

A law is a sum of terms. A term has the number of passes over all parameters, the bytes of each
parameter, and the participants, which determine the fraction that a rank sends or copies. Its
movements are those of an actual step, with padding and without frozen parameters; a skipped step
has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.base.tiers import Link, Tier, link_of_copy
from zerosim.schema.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.causes import Cause
from zerosim.theory.movement import Movement
from zerosim.theory.nodes import Span, link_shares
from zerosim.theory.workload import Workload

OF_A_ROOT = (Op.BROADCAST, Op.REDUCE)
"""Operations for which ranks send unequal amounts: the differences are in a term's `rest`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One kind of pass over the parameters, on one rank.

    Attributes:
        op: None for copies between `origin` and `target`.
        passes: number of times that all parameters pass through a rank's buffers: 2 for an
            all-reduce, 0 for traffic that a law omits.
        element_bytes: bytes per communicated parameter, without scales.
        ranks: the participants; for copies, all ranks that share the parameters.
        counts_frozen: whether frozen parameters are communicated as well.
        happens: False if this step omits this pass.
        padding: zeros communicated with each unit in one pass.
        movements: the movements of a step for this term.
        rest: why its movements differ from passes and padding; None if they must not differ.
    """

    phase: Phase
    purpose: Purpose
    op: Op | None = None
    origin: Tier | None = None
    target: Tier | None = None
    passes: Fraction = Fraction(0)
    element_bytes: Fraction = Fraction(0)
    span: Span = Span.WORLD
    ranks: tuple[int, ...] = ()
    counts_frozen: bool = False
    happens: bool = True
    padding: tuple[int, ...] = ()
    movements: tuple[Movement, ...] = ()
    rest: Cause | None = None

    @property
    def link(self) -> Link | None:
        """The link of copies; None for traffic between ranks."""
        if self.origin is None or self.target is None:
            return None
        return link_of_copy(self.origin, self.target)

    @property
    def bytes_a_parameter(self) -> Fraction:
        """Bytes per parameter in all passes."""
        return self.passes * self.element_bytes

    def goes_over(self, link: Link | None) -> bool:
        """Whether it may use the given link; None means all traffic between ranks."""
        return self.link is link or (self.link is None and link in (Link.NODE, Link.NETWORK))

    def share(self, workload: Workload, rank: int, link: Link | None) -> Fraction:
        """The fraction of its buffers that a rank moves: (n-1)/n in a group of n, 1/N for copies.

        Args:
            link: only traffic on this link; None for all traffic between ranks.
        """
        size = len(self.ranks)
        if self.op is None:
            return Fraction(1, size)
        part = Fraction(1)
        if link is not None:
            shares = link_shares(self.ranks, self.op, rank, workload.world_node_size)
            part = shares.get(link, Fraction(0))
        return Fraction(size - 1, size) * part

    def moved(self, workload: Workload, rank: int, link: Link | None, algorithm: Algorithm) -> int:
        """Bytes of its movements; for operations with a root, with the actual algorithm."""
        if link is not None:
            size = workload.world_node_size
            return sum(one.moved_by_link(rank, size).get(link, 0) for one in self.movements)
        own = algorithm if self.op in OF_A_ROOT else Algorithm.RING
        return sum(one.cost(rank, own).sent_bytes for one in self.movements)
