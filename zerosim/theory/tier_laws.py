"""The laws of what is copied over the bus and to the disk, and why a step differs from them.

ZeRO-Offload: 4 bytes x Psi over the bus in 16 bits, 2 down and 2 up, divided among N ranks; no cut
between device and host moves less (any cut through an edge of fp32 moves 6 or more). ZeRO-Infinity:
parameters from where they are kept before each use, optimizer states from the disk and back, each
rank over its own bus and disk (bandwidth-centric partitioning). The papers print the 4 bytes of
ZeRO-Offload; what ZeRO-Infinity's copies add up to (6 bytes over the bus, 30 to and from the disk,
with all on a disk) is derived from its description.

Sources: J. Ren et al., "ZeRO-Offload" (arXiv 2101.06840), section 3; S. Rajbhandari et al.,
"ZeRO-Infinity" (arXiv 2104.07857), sections 5 and 6. May import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from zerosim.events import Purpose
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.theory.causes import Cause, Deviation, Law
from zerosim.theory.laws import multiple
from zerosim.theory.partition import padded_elements
from zerosim.theory.tiers import STATE_BYTES, passes_over_kept, planned_copies, route
from zerosim.theory.traffic import require_rank
from zerosim.theory.workload import Workload
from zerosim.tiers import Link, Tier, link_of_copy

_INFINITY = "Rajbhandari et al., arXiv 2104.07857, sections 5 and 6"
_OF_PARAMETERS = frozenset(
    {
        Purpose.OFFLOAD_GRADIENTS,
        Purpose.RETURN_PARAMETERS,
        Purpose.FETCH_PARAMETERS,
        Purpose.STORE_PARAMETERS,
        Purpose.FETCH_STATES,
        Purpose.STORE_STATES,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyTerm:
    """One sort of copy of all parameters, in the mean of the ranks a part of 1/N each.

    Attributes:
        times: how often all parameters are copied.
        element_bytes: of one parameter on its way.
        counts_frozen: whether frozen parameters are copied, too.
        happens: False if this step leaves it out.
    """

    purpose: Purpose
    origin: Tier
    target: Tier
    times: int
    element_bytes: int
    counts_frozen: bool = False
    happens: bool = True


def copy_terms(workload: Workload, link: Link) -> tuple[CopyTerm, ...]:
    """What the law of one link class, the bus or the disk, is made of."""
    found = [*_fetch_terms(workload), *_host_terms(workload), *_store_terms(workload)]
    return tuple(term for term in found if link_of_copy(term.origin, term.target) is link)


def _fetch_terms(workload: Workload) -> list[CopyTerm]:
    return [
        CopyTerm(
            purpose=Purpose.FETCH_PARAMETERS,
            origin=origin,
            target=target,
            times=len(passes_over_kept(workload)) * workload.accumulate,
            element_bytes=workload.element_bytes,
            counts_frozen=True,
        )
        for origin, target in route(workload.offload_param, Tier.DEVICE)
    ]


def _host_terms(workload: Workload) -> list[CopyTerm]:
    if not workload.updates_on_host:
        return []
    size = workload.element_bytes
    ways = [(Purpose.OFFLOAD_GRADIENTS, Tier.DEVICE, Tier.HOST, workload.num_reductions, size)]
    if workload.offload_optimizer is Tier.DISK:
        ways.append((Purpose.FETCH_STATES, Tier.DISK, Tier.HOST, 1, STATE_BYTES))
        ways.append((Purpose.STORE_STATES, Tier.HOST, Tier.DISK, 1, STATE_BYTES))
    if workload.offload_param is Tier.DEVICE or workload.owner_broadcast:
        ways.append((Purpose.RETURN_PARAMETERS, Tier.HOST, Tier.DEVICE, 1, size))
    return [
        CopyTerm(
            purpose=purpose,
            origin=origin,
            target=target,
            times=times,
            element_bytes=element_bytes,
            happens=workload.hands_on or purpose is Purpose.OFFLOAD_GRADIENTS,
        )
        for purpose, origin, target, times, element_bytes in ways
    ]


def _store_terms(workload: Workload) -> list[CopyTerm]:
    is_on_host = workload.updates_on_host and not workload.owner_broadcast
    begin = Tier.HOST if is_on_host else Tier.DEVICE
    order = list(Tier)
    if order.index(workload.offload_param) <= order.index(begin):
        return []
    return [
        CopyTerm(
            purpose=Purpose.STORE_PARAMETERS,
            origin=origin,
            target=target,
            times=1,
            element_bytes=workload.element_bytes,
            happens=workload.hands_on,
        )
        for origin, target in route(begin, workload.offload_param)
    ]


def copy_law(workload: Workload, link: Link) -> Law:
    """The pure law of one link class: what a rank copies, in the mean of the ranks.

    Args:
        link: the bus or the disk.
    """
    found = copy_terms(workload, link)
    each = sum(term.times * term.element_bytes for term in found)
    payloads = Fraction(each, workload.element_bytes)
    words = ", ".join(
        f"{term.purpose} {multiple(Fraction(term.times * term.element_bytes))} B" for term in found
    )
    sources = [
        "Ren et al., arXiv 2101.06840, section 3" if workload.updates_on_host else "",
        f"derived from {_INFINITY}" if _is_infinity(workload) else "",
    ]
    return Law(
        payloads,
        f"of each parameter: {words}" if words else "nothing is copied",
        "; ".join(filter(None, sources)),
        Fraction(each * workload.num_parameters, workload.num_ranks),
        symbols=f"{each} B x {PSI}/N" if each else "0",
    )


def _is_infinity(workload: Workload) -> bool:
    return Tier.DISK is workload.offload_optimizer or Tier.DEVICE is not workload.offload_param


def copy_formula(workload: Workload, link: Link) -> str:
    """That law with this step's numbers, and its value."""
    each = sum(term.times * term.element_bytes for term in copy_terms(workload, link))
    value = format_exact_bytes(copy_law(workload, link).sent_bytes)
    return f"{each} B x {format_exact(workload.num_parameters)} / {workload.num_ranks} = {value}"


def copy_deviations(workload: Workload, rank: int, link: Link) -> tuple[Deviation, ...]:
    """Why the planned copies of a rank over one link class are not what the law says.

    Returns:
        The causes that are not zero. Their sum is exactly what `planned_copies` says that `rank`
        copies over the link, less `copy_law(...).sent_bytes`.

    Raises:
        ConfigError: there is no such rank.
    """
    require_rank(workload, rank)
    moved = copy_terms(workload, link)
    count = workload.num_ranks
    frozen = sum(unit.elements for unit in workload.units if not unit.trainable)
    trainable = workload.num_parameters - frozen
    padding = {True: 0, False: 0}
    for unit in workload.units:
        padding[unit.trainable] += padded_elements(unit.elements, count) - unit.elements
    unmoved = sum(t.times * t.element_bytes for t in moved if not t.counts_frozen)
    left_out = sum(t.times * t.element_bytes for t in moved if not t.happens)
    happening = [term for term in moved if term.happens]
    padded = sum(
        t.times * t.element_bytes * (padding[True] + (padding[False] if t.counts_frozen else 0))
        for t in happening
    )
    parameters = [
        Deviation(
            Cause.PADDING,
            Fraction(padded, count),
            f"{format_exact(padding[True] + padding[False])} elements of padding",
        ),
        Deviation(
            Cause.FROZEN_PARAMETERS,
            Fraction(-unmoved * frozen, count),
            f"{format_exact(frozen)} frozen parameters are never updated",
        ),
        Deviation(
            Cause.DELAYED_UPDATE if workload.delayed_update else Cause.SKIPPED_UPDATE,
            Fraction(-left_out * trainable, count),
            "no update of an earlier step is over in this one"
            if workload.delayed_update
            else "an overflow left the parameters as they were",
        ),
    ]
    law_and_causes = copy_law(workload, link).sent_bytes + sum(d.bytes for d in parameters)
    return tuple(
        d for d in [*parameters, *_others(workload, rank, link, law_and_causes)] if d.bytes
    )


def _others(workload: Workload, rank: int, link: Link, mean: Fraction) -> list[Deviation]:
    """What an owner copies beside the mean, and activations, of which the law says nothing."""
    copies = [copy for copy in planned_copies(workload, rank) if copy.link is link]
    activations = sum(c.payload_bytes for c in copies if c.purpose not in _OF_PARAMETERS)
    found = [
        Deviation(
            Cause.ACTIVATIONS,
            Fraction(activations),
            "activation checkpoints that are kept on the host",
        )
    ]
    if workload.owner_broadcast:
        exact = sum(c.payload_bytes for c in copies if c.purpose in _OF_PARAMETERS)
        found.append(
            Deviation(
                Cause.UNEQUAL_PARTS,
                exact - mean,
                f"owners of units: rank {rank} beside the mean of all",
            )
        )
    return found
