"""What a rank copies between its tiers in one optimizer step: device, host, disk.

Offload. With the optimizer on the host, gradients leave the device as they are reduced and updated
parameters come back: 2 + 2 bytes a parameter in bf16, of a rank's own part. With its states on a
disk they are read before an update and written after it. Parameters that are kept on the host or on
a disk are fetched before each gather and stored after an update; where the optimizer works on the
host already, it writes them in place.

Sources: J. Ren et al., "ZeRO-Offload" (arXiv 2101.06840), section 3; S. Rajbhandari et al.,
"ZeRO-Infinity" (arXiv 2104.07857), sections 5 and 6. May import the standard library and layer L0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zerosim.events import Phase, Purpose
from zerosim.theory.partition import UnitSize, cut_buckets, shard_elements
from zerosim.theory.traffic import require_rank
from zerosim.theory.workload import Workload
from zerosim.tiers import Link, Tier, link_of_copy

STATE_BYTES = 12
"""Of a parameter on a disk: fp32 master, momentum, variance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """The same copy, made one or more times in a step.

    Attributes:
        num_elements: of one copy.
        element_bytes: bytes of one element.
        times: how often it is made.
    """

    phase: Phase
    purpose: Purpose
    origin: Tier
    target: Tier
    unit: str
    num_elements: int
    element_bytes: int
    times: int = 1

    @property
    def payload_bytes(self) -> int:
        """Size of all these copies together."""
        return self.num_elements * self.element_bytes * self.times

    @property
    def link(self) -> Link:
        """What it goes over."""
        return link_of_copy(self.origin, self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """What one rank copies for one reason in one phase of an optimizer step."""

    phase: Phase
    purpose: Purpose
    origin: Tier
    target: Tier
    num_copies: int
    payload_bytes: int


def planned_copies(workload: Workload, rank: int) -> tuple[Copy, ...]:
    """Every copy between tiers that `rank` makes in one optimizer step, by phase.

    Only with `owner_broadcast` do they differ from rank to rank.

    Raises:
        ConfigError: there is no such rank.
    """
    require_rank(workload, rank)
    found = [
        *_fetches(workload, rank),
        *_gradients(workload),
        *_states(workload),
        *_stores(workload, rank),
        *_checkpoints(workload),
    ]
    order = [Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE]
    return tuple(sorted(found, key=lambda copy: order.index(copy.phase)))


def expected_copies(workload: Workload, rank: int) -> tuple[CopyRow, ...]:
    """The planned copies as rows, one for each phase, purpose, origin and target.

    Raises:
        ConfigError: there is no such rank.
    """
    grouped: dict[tuple[Phase, Purpose, Tier, Tier], list[Copy]] = {}
    for copy in planned_copies(workload, rank):
        key = (copy.phase, copy.purpose, copy.origin, copy.target)
        grouped.setdefault(key, []).append(copy)
    return tuple(
        CopyRow(
            phase=phase,
            purpose=purpose,
            origin=origin,
            target=target,
            num_copies=sum(copy.times for copy in copies),
            payload_bytes=sum(copy.payload_bytes for copy in copies),
        )
        for (phase, purpose, origin, target), copies in grouped.items()
    )


def route(origin: Tier, target: Tier) -> tuple[tuple[Tier, Tier], ...]:
    """The copies that lead from one tier to another: a disk is only reached from the host."""
    order = [Tier.DEVICE, Tier.HOST, Tier.DISK]
    here, there = order.index(origin), order.index(target)
    step = 1 if there > here else -1
    return tuple((order[at], order[at + step]) for at in range(here, there, step))


def passes_over_kept(workload: Workload) -> tuple[Phase, ...]:
    """The phases that gather what ranks keep; backward has a secondary partition in its place."""
    if workload.has_secondary:
        return (Phase.FORWARD,)
    return (Phase.FORWARD, Phase.BACKWARD)


def _fetches(workload: Workload, rank: int) -> Iterable[Copy]:
    """Before each gather from it, the part that is kept elsewhere."""
    for phase in passes_over_kept(workload):
        for unit, elements in _kept(workload, rank):
            for origin, target in route(workload.offload_param, Tier.DEVICE):
                yield Copy(
                    phase=phase,
                    purpose=Purpose.FETCH_PARAMETERS,
                    origin=origin,
                    target=target,
                    unit=unit.name,
                    num_elements=elements,
                    element_bytes=workload.element_bytes,
                    times=workload.accumulate,
                )


def _kept(workload: Workload, rank: int) -> Iterable[tuple[UnitSize, int]]:
    """The units of which this rank keeps parameters, and how many: its row, or all as an owner."""
    for position, unit in enumerate(workload.units):
        row = shard_elements(unit.elements, workload.num_ranks)
        if not workload.owner_broadcast:
            yield unit, row
        elif workload.owner(position, rank) == rank:
            yield unit, row * workload.num_ranks


def _gradients(workload: Workload) -> Iterable[Copy]:
    """Each segment of a bucket, as soon as it is reduced."""
    if not workload.updates_on_host:
        return
    for bucket in cut_buckets(workload.units, workload.num_ranks, workload.bucket_elements):
        for segment in bucket.segments:
            yield Copy(
                phase=Phase.BACKWARD,
                purpose=Purpose.OFFLOAD_GRADIENTS,
                origin=Tier.DEVICE,
                target=Tier.HOST,
                unit=segment.unit,
                num_elements=segment.stop - segment.start,
                element_bytes=workload.element_bytes,
                times=workload.num_reductions,
            )


def _states(workload: Workload) -> Iterable[Copy]:
    """Optimizer states to the host and back, for an update."""
    if workload.offload_optimizer is not Tier.DISK or not workload.hands_on:
        return
    ways = (
        (Purpose.FETCH_STATES, Tier.DISK, Tier.HOST),
        (Purpose.STORE_STATES, Tier.HOST, Tier.DISK),
    )
    for unit in _trainable(workload):
        for purpose, origin, target in ways:
            yield _of_update(workload, purpose, origin, target, unit, STATE_BYTES)


def _stores(workload: Workload, rank: int) -> Iterable[Copy]:
    """Updated parameters: to the device for the other ranks, and to where they are kept."""
    if not workload.hands_on:
        return
    size = workload.element_bytes
    keeps = workload.offload_param is not Tier.DEVICE
    if workload.updates_on_host and (workload.owner_broadcast or not keeps):
        for unit in _trainable(workload):
            yield _of_update(
                workload, Purpose.RETURN_PARAMETERS, Tier.HOST, Tier.DEVICE, unit, size
            )
    is_on_host = workload.updates_on_host and not workload.owner_broadcast
    begin = Tier.HOST if is_on_host else Tier.DEVICE
    for unit, elements in _kept(workload, rank) if keeps else ():
        for origin, target in route(begin, workload.offload_param) if unit.trainable else ():
            yield Copy(
                phase=Phase.UPDATE,
                purpose=Purpose.STORE_PARAMETERS,
                origin=origin,
                target=target,
                unit=unit.name,
                num_elements=elements,
                element_bytes=size,
            )


def _trainable(workload: Workload) -> Iterable[UnitSize]:
    return (unit for unit in workload.units if unit.trainable)


def _of_update(
    workload: Workload,
    purpose: Purpose,
    origin: Tier,
    target: Tier,
    unit: UnitSize,
    element_bytes: int,
) -> Copy:
    return Copy(
        phase=Phase.UPDATE,
        purpose=purpose,
        origin=origin,
        target=target,
        unit=unit.name,
        num_elements=shard_elements(unit.elements, workload.num_ranks),
        element_bytes=element_bytes,
    )


def _checkpoints(workload: Workload) -> Iterable[Copy]:
    """Activation checkpoints to the host in forward, and back before their block's backward."""
    kept = workload.activations
    if kept is None or not kept.is_on_host:
        return
    ways = (
        (Phase.FORWARD, Purpose.OFFLOAD_ACTIVATIONS, Tier.DEVICE, Tier.HOST),
        (Phase.BACKWARD, Purpose.FETCH_ACTIVATIONS, Tier.HOST, Tier.DEVICE),
    )
    for phase, purpose, origin, target in ways:
        yield Copy(
            phase=phase,
            purpose=purpose,
            origin=origin,
            target=target,
            unit="",
            num_elements=workload.part_elements,
            element_bytes=workload.element_bytes,
            times=kept.num_blocks * workload.accumulate,
        )
