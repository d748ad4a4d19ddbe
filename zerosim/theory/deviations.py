"""Every named cause by which an exact step differs from its pure law.

The causes of a step add up exactly, as fractions, to what it sends less what `laws.law` says:
nothing is left unexplained. The same of one link class alone.
May import the standard library and layer L0.
"""

from __future__ import annotations

from fractions import Fraction

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.quantities import format_exact, format_exact_bytes, format_psi
from zerosim.theory.algorithms import is_more_than_asked
from zerosim.theory.calls import Call, planned_calls
from zerosim.theory.causes import Cause, Deviation
from zerosim.theory.laws import phases_of
from zerosim.theory.terms import Term, terms
from zerosim.theory.traffic import require_rank
from zerosim.theory.workload import Workload
from zerosim.tiers import Link


def deviations(
    workload: Workload,
    rank: int,
    algorithm: Algorithm = Algorithm.RING,
    phase: Phase | None = None,
    link: Link | None = None,
) -> tuple[Deviation, ...]:
    """Why `expected_traffic` is not what `law` says, cause by cause.

    Args:
        workload: the step.
        rank: 0 to N - 1.
        algorithm: as given to `expected_traffic`; of a native backend, the differences from the
            ring are causes of their own.
        phase: only this phase's part; None for the whole step.
        link: only what zerosim's own messages send over this link, held against
            `link_law_bytes`; None for all.

    Returns:
        The causes that are not zero, in the order of `Cause`. Their sum is exactly the bytes
        that `expected_traffic` says `rank` sends, less `law(...).sent_bytes`.

    Raises:
        ConfigError: the algorithm's exact cost is not known, there is no such rank, or a backend's
            messages are asked for by link.
    """
    require_rank(workload, rank)
    if link is not None and algorithm is not Algorithm.RING:
        raise ConfigError(
            f"links of {algorithm}: expected zerosim's own messages, {Algorithm.RING}"
        )
    calls = [call for call in planned_calls(workload, rank) if call.phase in phases_of(phase)]
    found = [
        *_of_parameters(workload, rank, terms(workload, phases_of(phase)), link),
        *_of_numbers(workload, rank, calls, link),
        *_of_activations(workload, rank, calls, link),
        *_of_algorithm(workload, rank, calls, algorithm),
        *_of_scales(workload, rank, calls, link),
        *_of_owners(workload, rank, calls, algorithm, link),
    ]
    kept = (deviation for deviation in found if deviation.bytes)
    return tuple(sorted(kept, key=lambda deviation: _ORDER[deviation.cause]))


_ORDER = {cause: place for place, cause in enumerate(Cause)}


def _of_parameters(
    workload: Workload, rank: int, found: tuple[Term, ...], link: Link | None
) -> list[Deviation]:
    """Padding, frozen parameters, and what a step without an update leaves out."""
    shares = {term: term.element_bytes * term.share(workload, rank, link) for term in found}
    frozen = sum(unit.elements for unit in workload.units if not unit.trainable)
    trainable = workload.num_parameters - frozen
    num_law = sum((term.passes for term in found), Fraction(0))
    num_frozen = sum((t.passes for t in found if t.counts_frozen and t.happens), Fraction(0))
    padded_passes, padding_bytes = Fraction(0), Fraction(0)
    moving = [term for term in found if term.happens]
    added = [
        [
            term.padded(workload, unit) - unit.elements
            if unit.trainable or term.counts_frozen
            else 0
            for unit in workload.units
        ]
        for term in moving
    ]
    padding = sum(map(max, zip(*added, strict=True)))
    for term, numbers in zip(moving, added, strict=True):
        passes = term.passes * sum(numbers)
        padded_passes += passes
        padding_bytes += passes * shares[term]
    left_out = sum((t.passes * shares[t] for t in found if not t.happens), Fraction(0))
    why = (
        Deviation(
            Cause.DELAYED_UPDATE,
            -left_out * trainable,
            f"{format_exact(trainable)} trainable parameters are not handed on, because no update "
            "of an earlier step is over in this one",
        )
        if workload.delayed_update
        else Deviation(
            Cause.SKIPPED_UPDATE,
            -left_out * trainable,
            f"{format_exact(trainable)} trainable parameters are not gathered, because an "
            "overflow left them as they were",
        )
    )
    unmoved = sum((t.passes * shares[t] for t in found if not t.counts_frozen), Fraction(0))
    return [
        Deviation(
            Cause.PADDING,
            padding_bytes,
            f"{format_exact(padding)} elements of padding; each pass over "
            f"a padded unit carries its own, {format_exact(padded_passes)} elements in all",
        ),
        Deviation(
            Cause.FROZEN_PARAMETERS,
            -unmoved * frozen,
            f"{format_exact(frozen)} frozen parameters are moved {format_exact(num_frozen)} times, "
            f"the law says {format_exact(num_law)}",
        ),
        why,
    ]


_NUMBERS = {
    Purpose.OVERFLOW_FLAG: (Cause.OVERFLOW_FLAG, "fp32"),
    Purpose.GRADIENT_NORM: (Cause.GRADIENT_NORM, "fp64"),
    Purpose.AVERAGE_LOSS: (Cause.AVERAGE_LOSS, "fp32"),
}


def _of_numbers(
    workload: Workload, rank: int, calls: list[Call], link: Link | None
) -> list[Deviation]:
    return [
        Deviation(
            cause,
            _sent(workload, rank, call, link),
            f"all-gather of one {dtype} a rank: {workload.num_ranks - 1} x {call.element_bytes} B",
        )
        for call in calls
        for purpose, (cause, dtype) in _NUMBERS.items()
        if call.purpose is purpose
    ]


_OF_BLOCKS = (Purpose.ACTIVATIONS, Purpose.GATHER_ACTIVATIONS)


def _of_activations(
    workload: Workload, rank: int, calls: list[Call], link: Link | None
) -> list[Deviation]:
    """What blocks call that several ranks compute together."""
    found = {purpose: Fraction(0) for purpose in _OF_BLOCKS}
    for call in calls:
        if call.purpose in found:
            found[call.purpose] += _sent(workload, rank, call, link)
    sums, gathers = found.values()
    words = f"{format_exact_bytes(sums)} to compute blocks together"
    if gathers:
        words += f", {format_exact_bytes(gathers)} to gather checkpoints"
    return [Deviation(Cause.ACTIVATIONS, sums + gathers, words)]


def _sent(workload: Workload, rank: int, call: Call, link: Link | None) -> Fraction:
    if link is None:
        return Fraction(call.cost(workload, rank, Algorithm.RING).sent_bytes)
    return Fraction(call.sent_by_link(workload, rank).get(link, 0))


def _of_scales(
    workload: Workload, rank: int, calls: list[Call], link: Link | None
) -> list[Deviation]:
    """What quantized elements occupy beside themselves."""
    added = Fraction(0)
    for call in calls:
        if call.quantized_bytes is not None:
            part = 1 - Fraction(call.num_elements * call.element_bytes) / call.buffer_bytes
            added += part * _sent(workload, rank, call, link)
    block = workload.quantization_block
    return [Deviation(Cause.SCALES, added, f"an fp32 scale for each {block} quantized elements")]


def _of_owners(
    workload: Workload,
    rank: int,
    calls: list[Call],
    algorithm: Algorithm,
    link: Link | None,
) -> list[Deviation]:
    """How a rank's part of broadcasts, and of messages to owners, differs from the mean."""
    if not workload.owner_broadcast:
        return []
    mean = Fraction(0)
    phases = tuple({call.phase for call in calls})
    for term in terms(workload, phases):
        if term.op in (Op.BROADCAST, Op.SEND) and term.happens:
            units = [u for u in workload.units if u.trainable or term.counts_frozen]
            elements = sum(term.padded(workload, unit) for unit in units)
            share = term.share(workload, rank, link)
            mean += term.passes * term.element_bytes * elements * share
    sent = Fraction(0)
    for call in calls:
        if call.op is Op.SEND or (call.op is Op.BROADCAST and algorithm is Algorithm.RING):
            sent += _sent(workload, rank, call, link)
        elif call.op is Op.BROADCAST:
            sent += call.cost(workload, rank, algorithm).sent_bytes
    return [
        Deviation(
            Cause.UNEQUAL_PARTS,
            sent - mean,
            f"owners of units: rank {rank} {format_exact_bytes(sent - mean)} beside the mean",
        )
    ]


def _of_algorithm(
    workload: Workload, rank: int, calls: list[Call], algorithm: Algorithm
) -> list[Deviation]:
    """How the backend's own calls differ from the ring on the same requests."""
    if algorithm is Algorithm.RING:
        return []
    whole = Fraction(0)
    doubled_bytes = 0
    rounding = Fraction(0)
    for call in calls:
        if call.op is Op.BROADCAST:  # one root sends more: see `_of_owners`
            continue
        ring_bytes = call.cost(workload, rank, Algorithm.RING).sent_bytes
        native_bytes = call.cost(workload, rank, algorithm).sent_bytes
        excess = Fraction(0)
        if is_more_than_asked(algorithm, call.op):
            excess = Fraction(call.payload_bytes * (workload.num_ranks - 1), workload.num_ranks)
            doubled_bytes += call.payload_bytes
        whole += excess
        rounding += native_bytes - ring_bytes - excess
    psi = Fraction(doubled_bytes, workload.num_parameters * workload.element_bytes)
    return [
        Deviation(
            Cause.BACKEND_ALGORITHM,
            whole,
            f"Gloo carries reduce-scatter out as all-reduce: + {format_psi(psi, 2)}",
        ),
        Deviation(
            Cause.SEGMENT_ROUNDING,
            rounding,
            f"rounding of Gloo's segments: ranks send unequal parts, rank {rank} "
            f"{format_exact_bytes(rounding)} beside the equal share",
        ),
    ]
