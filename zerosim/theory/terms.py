"""What a law is made of: each pass over the parameters, and what is moved for it.

A law is a sum of terms. A term says how often all parameters travel, how many bytes each takes, and
who takes part, hence which part of it a rank sends or copies; the movements beside it are what a
step really does for it: with padding, without frozen parameters, or not at all.
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
"""Whose ranks do not all send the same: how much the others send more is in a term's rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One sort of pass over the parameters, as one rank takes part in it.

    Attributes:
        op: None for copies between `origin` and `target`.
        passes: how often all parameters are in a rank's buffers for it; of an all-reduce twice; 0
            for what a law leaves out.
        element_bytes: of one parameter on its way, without scales.
        ranks: who takes part; of copies all that the parameters are divided among.
        counts_frozen: whether frozen parameters travel, too.
        happens: False if this step leaves it out.
        padding: zeros that travel with each unit in one pass.
        movements: what a step does for it.
        rest: why its movements are more, or less, than passes and padding; None if they may not.
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
        """What copies go over; None for what goes between ranks."""
        if self.origin is None or self.target is None:
            return None
        return link_of_copy(self.origin, self.target)

    @property
    def bytes_a_parameter(self) -> Fraction:
        """In all its passes."""
        return self.passes * self.element_bytes

    def goes_over(self, link: Link | None) -> bool:
        """Whether a link is asked for that it may take; None for all between ranks."""
        return self.link is link or (self.link is None and link in (Link.NODE, Link.NETWORK))

    def share(self, workload: Workload, rank: int, link: Link | None) -> Fraction:
        """Which part of its buffers a rank moves: (n-1)/n in a group of n, 1/N of copies.

        Args:
            link: only what takes this link; None for all between ranks.
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
        """Bytes of its movements; of what has a root by the algorithm that carries it out."""
        if link is not None:
            size = workload.world_node_size
            return sum(one.moved_by_link(rank, size).get(link, 0) for one in self.movements)
        own = algorithm if self.op in OF_A_ROOT else Algorithm.RING
        return sum(one.cost(rank, own).sent_bytes for one in self.movements)
