"""The memory of a rank of one pipeline stage at each moment, for any size of micro-batch.

Model states are those of `model_states`, gathered units and whole gradients those of `residency`.
`footprint` adds the activations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from zerosim.base.tiers import Tier
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.theory.footprint_parts import FootprintPart, LawOfRole, Parts, bytes_of, words
from zerosim.theory.layout import few_blocks
from zerosim.theory.model_states import FP32_BYTES
from zerosim.theory.partition import shard_elements
from zerosim.theory.residency import NUM_BUFFERS, most_gathered_bytes, secondary_bytes, whole_bytes
from zerosim.theory.transformer import BLOCK, EMBEDDING, HEAD, ROOT, AlikeUnits
from zerosim.theory.workload import Workload
from zerosim.theory.zero_states import zero_states

_ZERO = "ZeRO, arXiv 1910.02054, sections 3 and 5"
_RESIDENT = "ZeRO, arXiv 1910.02054, sections 5.2 and 5.3"
_BUFFERS = "ZeRO, arXiv 1910.02054, section 6.2"
_PLUS = "ZeRO++, arXiv 2306.10209, section 3.2"
_ENGINE = words("footprint.engine")
LOSS, UPDATE = "the loss is computed", "the update"
LAST_BLOCK, FIRST_BLOCK = "the last block's backward", "the first block's backward"
"""The moments at which memory is computed."""


@dataclass(frozen=True, slots=True)
class _States:
    """Model states of a stage's units.

    Attributes:
        kept: on the device, at every moment.
        gradients: on the device, but not at all moments.
    """

    kept: Parts
    gradients: FootprintPart
    host_bytes: int
    disk_bytes: int


@lru_cache(maxsize=4096)
def _states(workload: Workload, times: tuple[int, ...]) -> _States:
    """The model states of all units; the workload has one unit of each kind."""
    states = zero_states(workload)
    count = dict(zip((unit.name for unit in workload.units), times, strict=True))
    found: dict[Tier, dict[Role, int]] = {tier: {} for tier in Tier}
    for tier in states.tiers:
        for (role, unit), size in states.bytes(tier).items():
            found[tier][role] = found[tier].get(role, 0) + size * count[unit]
    device, host, disk = found[Tier.DEVICE], found[Tier.HOST], found[Tier.DISK]
    parts = {
        role: FootprintPart(role, device.get(role, 0), LawOfRole(states, role), _ZERO, role)
        for role in MODEL_STATES
    }
    gradients = parts.pop(Role.GRADIENTS)
    return _States(tuple(parts.values()), gradients, sum(host.values()), sum(disk.values()))


def _together(one: _States, other: _States) -> _States:
    """The model states of two groups of units together."""

    def both(mine: FootprintPart, theirs: FootprintPart) -> FootprintPart:
        return FootprintPart(mine.name, mine.bytes + theirs.bytes, mine.law, mine.cited, mine.role)

    return _States(
        tuple(both(*pair) for pair in zip(one.kept, other.kept, strict=True)),
        both(one.gradients, other.gradients),
        one.host_bytes + other.host_bytes,
        one.disk_bytes + other.disk_bytes,
    )


@lru_cache(maxsize=4096)
def _most_gathered(workload: Workload) -> int:
    """The peak bytes of gathered units; the few blocks of a workload represent all."""
    whole = whole_bytes(workload)
    order = [unit for unit in whole if unit != ROOT]
    spanning = [ROOT] if ROOT in whole else []
    return most_gathered_bytes(whole, order, spanning, workload.config.prefetch)


class HeldAtMoment(NamedTuple):
    """A rank's memory at one moment: the parts listed before and after its activations."""

    moment: str
    before: Parts
    after: Parts
    bytes: int


@dataclass(frozen=True, slots=True)
class HeldByStage:
    """The same at all moments.

    Attributes:
        host_bytes, disk_bytes: model states on the host and on the disk instead of on the device.
    """

    moments: tuple[HeldAtMoment, ...]
    host_bytes: int
    disk_bytes: int


class StageUnits(NamedTuple):
    """The properties that determine a stage's memory.

    Attributes:
        pieces: the units of the stage.
        keeps_gradients: gradients exist when a micro-batch begins: of earlier ones, or in
            persistent memory.
        bucket: elements of a bucket; None if a bucket is a unit.
        is_alone: whether there are no other data-parallel ranks.
    """

    workload: Workload
    experts: Workload | None
    pieces: tuple[AlikeUnits, ...]
    keeps_gradients: bool
    bucket: int | None
    is_alone: bool


@lru_cache(maxsize=4096)
def held_by_stage(of: StageUnits) -> HeldByStage:
    """The memory that does not depend on the micro-batch."""
    workload, pieces = of.workload, of.pieces
    states = _states(workload, tuple(one.times for one in pieces))
    whole: Mapping[str, int] = whole_bytes(workload)
    if of.experts is not None:
        times = tuple(one.times for one in pieces if one.experts)
        states = _together(states, _states(of.experts, times))
        for name, size in whole_bytes(of.experts).items():
            whole = {**whole, name: whole[name] + size}
    every = (*states.kept, states.gradients)
    begins = every if of.keeps_gradients else states.kept
    secondary = tuple(_copies(of))
    beside = (*_units_gathered(of), *_on_their_way(of), *secondary)
    names, block, root = {one.name for one in pieces}, whole[BLOCK], whole.get(ROOT, 0)
    last = max(whole[HEAD], block) if HEAD in names else block
    first = root + (whole[EMBEDDING] if EMBEDDING in names else block)
    updated = tuple(_updated(of))
    found = {
        LOSS: (begins, (*secondary, *_root_gathered(of, root))),
        LAST_BLOCK: ((*begins, *_whole_gradients(of, last + block)), beside),
        FIRST_BLOCK: ((*every, *_whole_gradients(of, first + block)), beside),
        UPDATE: ((*every, *updated), secondary if updated else ()),
    }
    if HEAD not in names:
        del found[LOSS]
    return HeldByStage(
        tuple(
            HeldAtMoment(moment, before, after, bytes_of((*before, *after)))
            for moment, (before, after) in found.items()
        ),
        states.host_bytes,
        states.disk_bytes,
    )


# ------------------------------------------------------------------- its parts


def _units_gathered(of: StageUnits) -> Iterator[FootprintPart]:
    config = of.workload.config
    if config.stage == 3:
        size = _most_gathered(few_blocks(of.workload, of.pieces))
        law = words("footprint.ahead", ahead=config.prefetch)
        yield FootprintPart("gathered parameters", size, law, _RESIDENT, Role.GATHERED)


def _root_gathered(of: StageUnits, root: int) -> Iterator[FootprintPart]:
    if root and of.workload.config.stage == 3:
        law = words("footprint.of_the_root")
        yield FootprintPart("gathered parameters", root, law, _RESIDENT, Role.GATHERED)


def _copies(of: StageUnits) -> Iterator[FootprintPart]:
    if of.workload.config.has_secondary:
        parts = secondary_bytes(of.workload)
        size = sum(parts[one.name] * one.times for one in of.pieces)
        yield FootprintPart("secondary parameters", size, "2Ψ/S", _PLUS, Role.SECONDARY)


def _whole_gradients(of: StageUnits, size: int) -> Iterator[FootprintPart]:
    if of.workload.config.stage < 2:
        return
    law = words("footprint.of_two_units")
    if of.bucket:
        size += _two_buckets(of, of.bucket)
        law = words("footprint.of_two_units_and_buckets")
    yield FootprintPart("whole gradients", size, law, _RESIDENT, Role.GRADIENTS)


def _on_their_way(of: StageUnits) -> Iterator[FootprintPart]:
    if of.bucket is not None and not of.is_alone:
        size, law = _two_buckets(of, of.bucket), words("footprint.two_buckets")
        yield FootprintPart("buckets on their way", size, law, _BUFFERS, Role.BUFFERS)


def _two_buckets(of: StageUnits, bucket: int) -> int:
    return NUM_BUFFERS * bucket * of.workload.config.dtype.element_bytes


def _updated(of: StageUnits) -> Iterator[FootprintPart]:
    """The largest unit's gradients, unless the host has them."""
    config = of.workload.config
    if config.offloads_optimizer:
        return
    largest = max(one.elements for one in of.pieces)
    part = shard_elements(largest, of.workload.num_ranks if config.stage else 1)
    law = words("footprint.of_the_largest", part="/N" if config.stage else "")
    yield FootprintPart("gradients in fp32", FP32_BYTES * part, law, _ENGINE)
