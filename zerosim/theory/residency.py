"""Temporary memory of a rank during computation: gathered units, whole gradients.

The memory laws count persistent states. In between, stage 3 gathers a unit while it computes, and
stages 2 and 3 have a unit's whole gradient from its backward until its last bucket is reduced. Both
are bounded: by the prefetched units, and by one bucket in flight. Units that span the whole model
("root") are gathered first and stay until the end.

hpZ of ZeRO++ keeps a part of the gathered parameters for backward: the smaller its groups, the
larger the part.

Sources: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5.2 and 5.3; G. Wang et al.,
"ZeRO++" (arXiv 2306.10209), section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from zerosim.schema.manifest import BucketLayout
from zerosim.theory.partition import padded_elements
from zerosim.theory.workload import Workload
from zerosim.theory.zeropp import secondary_elements

_FROZEN_SUFFIX = ".frozen"


def module_of(unit: str) -> str:
    """The module that a unit belongs to: its frozen parameters form a separate unit."""
    return unit.removesuffix(_FROZEN_SUFFIX)


def _is_frozen(unit: str) -> bool:
    return unit.endswith(_FROZEN_SUFFIX)


def num_ahead(
    gathered: Iterable[str],
    computing: Collection[str],
    spanning: Collection[str],
    leaving: Collection[str] = (),
) -> int:
    """Number of gathered units other than those that compute; at most the prefetch limit.

    Args:
        gathered: complete units.
        computing: modules that compute. If none of them is gathered, one is about to begin, and
            its units are not counted.
        spanning: modules that stay gathered while the whole model computes.
        leaving: modules that compute or have just computed. Their frozen parameters are needed
            until the gradients of their inputs exist, when the next module has begun.
    """
    modules = Counter(
        module_of(unit)
        for unit in gathered
        if not (_is_frozen(unit) and module_of(unit) in leaving)
    )
    for module in spanning:
        modules.pop(module, None)
    present = [module for module in computing if module in modules]
    if not present and modules:
        present = [max(modules, key=lambda module: modules[module])]
    return modules.total() - sum(modules[module] for module in present)


def whole_bytes(workload: Workload) -> dict[str, int]:
    """Bytes of each complete unit, in the compute dtype, including padding."""
    return {
        unit.name: padded_elements(unit.elements, workload.num_ranks) * workload.element_bytes
        for unit in workload.units
    }


def most_gathered_bytes(
    whole_bytes: Mapping[str, int],
    order: Sequence[str],
    spanning: Collection[str],
    prefetch: int,
    together: Collection[str] = (),
) -> int:
    """The largest memory of gathered units: one module's, the prefetched ones, the spanning ones.

    Args:
        whole_bytes: bytes of each complete unit, including padding.
        order: units in the order of forward, without the spanning ones.
        spanning: modules that stay gathered while the whole model computes.
        prefetch: number of prefetched units, in either direction.
        together: modules that compute at the same time, if any.
    """
    always = sum(size for unit, size in whole_bytes.items() if module_of(unit) in spanning)
    modules = list(dict.fromkeys(module_of(unit) for unit in order))
    most = 0
    for index, module in enumerate(modules):
        following = modules[index + 1 : index + 2]
        own = [place for place, unit in enumerate(order) if module_of(unit) == module]
        forward = order[own[0] : own[-1] + 1 + prefetch]
        leaving = [unit for unit in order if module_of(unit) in following and _is_frozen(unit)]
        backward = [*order[max(0, own[0] - prefetch) : own[-1] + 1], *leaving]
        most = max(most, *(sum(whole_bytes[one] for one in path) for path in (forward, backward)))
    several = set(together) - set(spanning)
    if len(several) > 1:
        own_bytes = sum(whole_bytes[unit] for unit in order if module_of(unit) in several)
        others = sorted(whole_bytes[unit] for unit in order if module_of(unit) not in several)
        most = max(most, own_bytes + sum(others[len(others) - min(prefetch, len(others)) :]))
    return always + most


NUM_BUFFERS = 2
"""Buffers of constant size (C_B, section 6.2): one is in flight while the next is filled."""
LEAVING = 1
"""Pieces of reduced gradients that may be in flight from the device to the host at once."""


def whole_gradients(
    buckets: Sequence[BucketLayout],
    computed: Collection[str],
    computing: Collection[str],
    leaving: int = 0,
) -> set[str]:
    """Units with a whole gradient that a rank may keep in stages 2 and 3.

    Buckets are reduced in order: each one once all its units have their gradients and the previous
    bucket is reduced.

    Args:
        buckets: in order of their reduction.
        computed: units whose gradient is complete.
        computing: units whose gradient is being computed.
        leaving: reduced pieces that may be in flight to the host: until they arrive, their source
            cannot be freed.
    """
    num_started = 0
    for bucket in buckets:
        if any(segment.unit not in computed for segment in bucket.segments):
            break
        num_started += 1
    landed = max(0, num_started - 1)
    pending = {segment.unit for bucket in buckets[landed:] for segment in bucket.segments}
    over = [segment.unit for bucket in buckets[:landed] for segment in bucket.segments]
    pending |= set(over[max(0, len(over) - leaving) :])
    return set(computing) | (pending & set(computed))


def secondary_bytes(workload: Workload) -> dict[str, int]:
    """The part of each unit that hpZ keeps until the update; together 2 Psi/S below fp32."""
    if not workload.config.has_secondary:
        return {}
    return {
        unit.name: workload.element_bytes * secondary_elements(workload, unit.elements)
        for unit in workload.units
    }
