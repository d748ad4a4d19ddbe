"""What the papers' laws are made of: each pass over the parameters that a system sends.

A law is a sum of terms. A term says how often all parameters travel, how many bytes each takes, who
takes part, and so which part of it a rank sends; a step may leave a term out, or frozen parameters
in it. `laws` adds them up and names what is left.

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 7; G. Wang et al., "ZeRO++"
(arXiv 2306.10209), section 3; what owners broadcast is derived, see `laws`. May import the standard
library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.events import Op, Phase, Purpose
from zerosim.theory.nodes import Span, link_shares, span_size
from zerosim.theory.partition import UnitSize, padded_elements
from zerosim.theory.workload import Workload
from zerosim.theory.zeropp import INT4_BYTES, INT8_BYTES, secondary_elements
from zerosim.tiers import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One sort of pass over the parameters.

    Attributes:
        passes: how often all parameters are in a rank's buffers for it; of an all-reduce twice.
        element_bytes: of one parameter on its way, without scales.
        counts_frozen: whether frozen parameters travel, too.
        happens: False if this step leaves it out.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    passes: Fraction
    element_bytes: Fraction
    span: Span = Span.WORLD
    counts_frozen: bool = False
    happens: bool = True

    def share(self, workload: Workload, rank: int = 0, link: Link | None = None) -> Fraction:
        """Which part of its buffers a rank sends: (n-1)/n in a group of n.

        Args:
            link: only what takes this link; None for all.
        """
        size = span_size(workload, self.span)
        part = Fraction(1)
        if link is not None:
            part = link_shares(workload, self.span, self.op, rank).get(link, Fraction(0))
        return Fraction(size - 1, size) * part

    def padded(self, workload: Workload, unit: UnitSize) -> int:
        """Elements that travel of a unit in one pass, with its padding."""
        if self.span is Span.SECONDARY:
            part = secondary_elements(workload, unit.elements)
            return part * workload.secondary_partition
        return padded_elements(unit.elements, workload.num_ranks)


def terms(workload: Workload, phases: tuple[Phase, ...]) -> tuple[Term, ...]:
    """The law's terms in these phases, in the order in which they are sent."""
    found = [*_unshards(workload), *_reductions(workload), *_updates(workload)]
    return tuple(term for term in found if term.phase in phases)


def _unshards(workload: Workload) -> list[Term]:
    if workload.stage != 3:
        return []
    found = []
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        from_secondary = phase is Phase.BACKWARD and workload.has_secondary
        is_broadcast = workload.owner_broadcast and not from_secondary
        is_quantized = workload.quantize_weights and not from_secondary and not is_broadcast
        found.append(
            Term(
                phase=phase,
                purpose=Purpose.GATHER_PARAMETERS,
                op=Op.BROADCAST if is_broadcast else Op.ALL_GATHER,
                passes=Fraction(workload.accumulate),
                element_bytes=INT8_BYTES if is_quantized else Fraction(workload.element_bytes),
                span=Span.SECONDARY if from_secondary else Span.WORLD,
                counts_frozen=True,
            )
        )
    return found


def _reductions(workload: Workload) -> list[Term]:
    g = Fraction(workload.num_reductions)
    size = Fraction(workload.element_bytes)
    if not workload.quantize_gradients:
        op = Op.REDUCE_SCATTER if workload.partitions else Op.ALL_REDUCE
        passes = g if workload.partitions else 2 * g
        return [_reduction(op, passes, size, Span.WORLD)]
    found = [
        _reduction(Op.ALL_TO_ALL, g, INT4_BYTES, Span.NODE),
        _reduction(Op.ALL_TO_ALL, g / workload.node_size, INT4_BYTES, Span.ACROSS),
    ]
    return [term for term in found if span_size(workload, term.span) > 1]


def _reduction(op: Op, passes: Fraction, element_bytes: Fraction, span: Span) -> Term:
    return Term(
        phase=Phase.BACKWARD,
        purpose=Purpose.REDUCE_GRADIENTS,
        op=op,
        passes=passes,
        element_bytes=element_bytes,
        span=span,
    )


def _updates(workload: Workload) -> list[Term]:
    if workload.stage not in (1, 2) and not workload.owner_broadcast:
        return []
    is_sent = workload.owner_broadcast
    return [
        Term(
            phase=Phase.UPDATE,
            purpose=Purpose.GATHER_PARAMETERS,
            op=Op.SEND if is_sent else Op.ALL_GATHER,
            passes=Fraction(1, workload.num_ranks) if is_sent else Fraction(1),
            element_bytes=Fraction(workload.element_bytes),
            happens=workload.hands_on,
        )
    ]
