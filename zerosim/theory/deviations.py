"""Every named cause by which an exact step differs from its pure law.

The causes of a step add up exactly, as fractions, to its traffic less that of `laws.law`: nothing
is left unexplained. The same is true of one phase or one link class alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction

from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_decimal, format_exact, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import Algorithm, Phase, Purpose
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.theory.causes import Cause, Deviation
from zerosim.theory.laws import terms_of
from zerosim.theory.nodes import ranks_of_node
from zerosim.theory.terms import OF_A_ROOT, Term
from zerosim.theory.wording import said
from zerosim.theory.workload import Workload

_ORDER = {cause: place for place, cause in enumerate(Cause)}


def deviations(
    workload: Workload,
    rank: int,
    algorithm: Algorithm = Algorithm.RING,
    phase: Phase | None = None,
    link: Link | None = None,
) -> tuple[Deviation, ...]:
    """Why a rank's planned movements differ from `law`, cause by cause.

    Args:
        workload: the step.
        rank: 0 to N - 1; with T tensor-parallel ranks, to N T - 1.
        algorithm: implementation of the collectives; with a native backend, its differences
            from the ring are separate causes.
        phase: only this phase's part; None for the whole step.
        link: only messages of zerosim over this link, or copies over it; None for all traffic
            between ranks.

    Returns:
        The causes that are not zero, in the order of `Cause`. Their sum is exactly the bytes
        that `rank` sends, or copies, less `law_bytes`.

    Raises:
        ConfigError: the algorithm's exact cost is unknown, there is no such rank, or a backend's
            messages are requested by link.
    """
    if link is not None and algorithm is not Algorithm.RING:
        raise ConfigError(
            f"links of {algorithm}: expected zerosim's own messages, {Algorithm.RING}"
        )
    found = terms_of(workload, rank, phase, link)
    sizes: dict[Cause, Fraction] = defaultdict(Fraction)
    for term in found:
        for cause, size in _of_term(workload, rank, term, link, algorithm):
            sizes[cause] += size
    if algorithm is not Algorithm.RING:
        for cause, size in _of_algorithm(rank, found, algorithm):
            sizes[cause] += size
    return tuple(
        Deviation(cause, sizes[cause], _words(workload, rank, cause, found, sizes[cause]))
        for cause in sorted(sizes, key=_ORDER.__getitem__)
        if sizes[cause]
    )


def node_deviations(workload: Workload, node: int = 0) -> tuple[Deviation, ...]:
    """Why the planned calls of a node's ranks differ from the law, cause by cause.

    Returns:
        The causes that are not zero. Their sum is exactly the traffic of the node's ranks to other
        nodes, less `node_law(...).sent_bytes`.
    """
    found: dict[str, Deviation] = {}
    for rank in ranks_of_node(workload, node):
        for one in deviations(workload, rank, link=Link.NETWORK):
            before = found.get(one.cause)
            added = one.bytes + (before.bytes if before else 0)
            found[one.cause] = Deviation(one.cause, added, one.words)
    return tuple(deviation for deviation in found.values() if deviation.bytes)


def _of_term(
    workload: Workload, rank: int, term: Term, link: Link | None, algorithm: Algorithm
) -> Iterable[tuple[Cause, Fraction]]:
    """Padding, frozen parameters, the omissions of a skipped step, and the rest."""
    each = term.bytes_a_parameter * term.share(workload, rank, link)
    frozen = workload.num_frozen
    named = Fraction(0)
    if not term.counts_frozen:
        yield Cause.FROZEN_PARAMETERS, -each * frozen
        named -= each * frozen
    if term.happens:
        yield Cause.PADDING, each * sum(term.padding)
        named += each * sum(term.padding)
    else:
        late = Cause.DELAYED_UPDATE if workload.config.delayed_update else Cause.SKIPPED_UPDATE
        yield late, -each * (workload.num_parameters - frozen)
        named -= each * (workload.num_parameters - frozen)
    if term.rest is not None:
        exact = term.moved(workload, rank, link, algorithm)
        yield term.rest, exact - each * workload.num_parameters - named


def _of_algorithm(
    rank: int, found: Sequence[Term], algorithm: Algorithm
) -> Iterable[tuple[Cause, Fraction]]:
    """How the backend's own calls differ from the ring for the same requests."""
    for term in found:
        if term.op in OF_A_ROOT:
            continue
        for one in term.movements:
            added = one.cost(rank, algorithm).sent_bytes - one.cost(rank, Algorithm.RING).sent_bytes
            doubled = Fraction(0)
            if is_more_than_asked(algorithm, one.op):
                doubled = one.ring_share()
            yield Cause.BACKEND_ALGORITHM, doubled
            yield Cause.SEGMENT_ROUNDING, added - doubled


def _words(
    workload: Workload, rank: int, cause: Cause, found: Sequence[Term], size: Fraction
) -> str:
    """An explanation of a cause, with this step's numbers."""
    trainable = format_exact(workload.num_parameters - workload.num_frozen)
    words = ""
    match cause:
        case Cause.PADDING:
            words = _of_padding([term for term in found if term.happens and term.padding])
        case Cause.FROZEN_PARAMETERS:
            law = sum((term.passes for term in found), Fraction(0))
            moved = sum((t.passes for t in found if t.counts_frozen and t.happens), Fraction(0))
            words = said(
                "causes.frozen",
                frozen=format_exact(workload.num_frozen),
                moved=format_exact(moved),
                law=format_exact(law),
            )
        case Cause.SKIPPED_UPDATE | Cause.DELAYED_UPDATE:
            key = "causes.skipped" if cause is Cause.SKIPPED_UPDATE else "causes.delayed"
            words = said(key, trainable=trainable)
        case Cause.SCALES:
            words = said("causes.scales", block=workload.config.quantization_block)
        case Cause.ACTIVATIONS:
            words = _of_activations(rank, found)
        case Cause.UNEQUAL_PARTS:
            words = said("causes.owners", rank=rank, bytes=format_exact_bytes(size))
        case Cause.BACKEND_ALGORITHM:
            a_pass = workload.num_parameters * workload.element_bytes * workload.ring_share
            words = said("causes.gloo", size=f"+ {_multiple(size / a_pass)}{PSI}(N-1)/N")
        case Cause.SEGMENT_ROUNDING:
            words = said("causes.rounding", rank=rank, bytes=format_exact_bytes(size))
        case _:  # a number on which the ranks agree
            [one] = next(term.movements for term in found if term.rest is cause)
            each = f"{len(one.ranks) - 1} x {one.element_bytes} B"
            words = said("causes.scalar", bits=8 * one.element_bytes, each=each)
    return words


def _multiple(passes: Fraction) -> str:
    """The factor in front of Psi, with two digits; empty for 1."""
    if passes.denominator == 1:
        return "" if passes == 1 else str(passes)
    return format_decimal(passes, 2)


def _of_padding(moving: Sequence[Term]) -> str:
    zeros = sum(map(max, zip(*(term.padding for term in moving), strict=True)))
    in_all = sum((term.passes * sum(term.padding) for term in moving), Fraction(0))
    return said("causes.padding", zeros=format_exact(zeros), in_all=format_exact(in_all))


def _of_activations(rank: int, found: Sequence[Term]) -> str:
    """Calls of blocks that several ranks compute together, and checkpoints in other places."""
    sizes: dict[Purpose, int] = defaultdict(int)
    for term in found:
        if term.rest is Cause.ACTIVATIONS:
            for one in term.movements:
                sizes[term.purpose] += one.cost(rank, Algorithm.RING).sent_bytes
    if not sizes[Purpose.ACTIVATIONS]:
        return said("causes.on_host")
    gathered = sizes[Purpose.GATHER_ACTIVATIONS]
    return said(
        "causes.together_gathered" if gathered else "causes.together",
        bytes=format_exact_bytes(sizes[Purpose.ACTIVATIONS]),
        gathered=format_exact_bytes(gathered),
    )
