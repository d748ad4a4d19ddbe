"""The model states of zerosim's own engine: their size, by role and tier.

K is the number of bytes of optimizer states per parameter: in mixed precision an fp32 master copy
(4) and, for Adam, fp32 momentum (4) and variance (4), K = 12; in fp32 there is no master copy.

ZeRO-Offload keeps the parameters in the compute dtype on the device, and gradients and the
optimizer's fp32 states on the host, where they are updated: with mixed-precision Adam, 2 Psi bytes
on the device and 14 Psi on the host, partitioned among the ranks as the stage prescribes.
ZeRO-Infinity keeps the optimizer states, and in stage 3 the parameters, on the host or on a disk.
Its paper counts 20 bytes per parameter, because its optimizer also keeps gradients in fp32; here
gradients stay in the compute dtype, which makes 16.

Sources: J. Ren et al., "ZeRO-Offload" (arXiv 2101.06840), sections 3.2 and 4; S. Rajbhandari et
al., "ZeRO-Infinity" (arXiv 2104.07857), sections 3 (20 bytes), 5.1 and 6.1; "ZeRO" (arXiv
1910.02054), sections 3.1 (K of Adam; those of SGD are derived the same way) and 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from zerosim.base.config import STAGE_NAMES, DType, EngineConfig
from zerosim.base.language import listed, term
from zerosim.base.quantities import format_exact
from zerosim.base.tiers import Tier
from zerosim.schema.memory import MOMENTS, OPTIMIZER_STATES, Role
from zerosim.theory.causes import Cause
from zerosim.theory.model_states import FP32_BYTES, Kept, ModelStates
from zerosim.theory.partition import UnitSize, padding_elements, shard_elements
from zerosim.theory.wording import said
from zerosim.theory.workload import Workload


class Optimizer(StrEnum):
    """The optimizers for which the size of the states is known."""

    ADAM = "adam"
    MOMENTUM = "sgd with momentum"
    SGD = "sgd"


_MOMENTS = {
    Optimizer.ADAM: MOMENTS,
    Optimizer.MOMENTUM: (Role.MOMENTUM,),
    Optimizer.SGD: (),
}


@dataclass(frozen=True, slots=True)
class RoleBytes:
    """The size of one role in one tier.

    Attributes:
        bytes: for one parameter, without partitioning.
        is_divided: whether each rank keeps one of N shards.
    """

    tier: Tier
    role: Role
    bytes: int
    is_divided: bool


def bytes_a_parameter(
    config: EngineConfig, optimizer: Optimizer = Optimizer.ADAM
) -> tuple[RoleBytes, ...]:
    """The size of every role, in the order of the tiers and, within one, of `Role`.

    With a delayed update, two generations of gradients are on the host: one that backward fills,
    and one that the previous update reads.
    """
    stage, size = config.stage, config.dtype.element_bytes
    states = config.offload_optimizer.tier
    found = [RoleBytes(config.offload_param.tier, Role.PARAMETERS, size, stage >= 3)]
    if not config.offloads_optimizer or stage == 1:
        found.append(RoleBytes(Tier.DEVICE, Role.GRADIENTS, size, stage >= 2))
    if config.offloads_optimizer:
        generations = 2 if config.delayed_update else 1
        found += [RoleBytes(Tier.HOST, Role.GRADIENTS, size, is_divided=True)] * generations
    roles = (*((Role.MASTER,) if _has_master(config) else ()), *_MOMENTS[optimizer])
    found += [RoleBytes(states, role, FP32_BYTES, stage >= 1) for role in roles]
    order = list(Tier)
    return tuple(sorted(found, key=lambda each: order.index(each.tier)))


def _has_master(config: EngineConfig) -> bool:
    """Whether there is a master copy: fp32 shards updated in place need none."""
    states = config.offload_optimizer.tier
    is_elsewhere = states is Tier.DISK or states is not config.offload_param.tier
    is_apart = config.has_owners and not config.owners_update
    return config.dtype is not DType.FP32 or is_apart or is_elsewhere


def optimizer_bytes(dtype: DType, optimizer: Optimizer) -> int:
    """K: in mixed precision 12, 8, 4 for Adam, SGD with momentum, SGD; in fp32 8, 4, 0."""
    found = bytes_a_parameter(EngineConfig(dtype=dtype), optimizer)
    return sum(each.bytes for each in found if each.role in OPTIMIZER_STATES)


def zero_states(
    workload: Workload,
    rank: int = 0,
    *,
    optimizer: Optimizer = Optimizer.ADAM,
    first_update: int = 0,
) -> ModelStates:
    """The memory of a rank.

    Every unit is padded to a multiple of N; of a partitioned one, a rank keeps one of N shards. A
    frozen unit has parameters only. With owners, rank i % N keeps the whole of unit i, that is its
    parameters or all its states, and the other ranks nothing of these; so the ranks keep different
    amounts. If owners keep all states, the mean over ranks is 16 Psi/N.

    Args:
        rank: index among all ranks.
        first_update: the iteration of the first update: momentum and variance exist from the next
            one on; on a disk from the beginning, as zeros.
    """
    config, num_ranks = workload.config, workload.num_ranks
    parts = tuple(_parts(workload, rank // workload.tensor_parallel, optimizer, first_update))
    padding = sum(padding_elements(unit.elements, num_ranks) for unit in workload.units)
    return ModelStates(
        name=_name(config),
        num_ranks=num_ranks,
        parts=parts,
        words={
            Cause.PADDING: said("states.padding", zeros=format_exact(padding), ranks=num_ranks),
            Cause.FROZEN_PARAMETERS: said("states.frozen", count=format_exact(workload.num_frozen)),
            Cause.UNEQUAL_PARTS: said("states.owners", ranks=num_ranks),
        },
        unsettled=first_update + 1 if config.delayed_update else None,
        is_mean=config.owners_update,
    )


def _parts(
    workload: Workload, position: int, optimizer: Optimizer, first_update: int
) -> Iterator[Kept]:
    """Args: position: the rank's index among the N ranks."""
    config, num_ranks = workload.config, workload.num_ranks
    generations = 0
    for each in bytes_a_parameter(config, optimizer):
        since = 0
        if each.role in MOMENTS and each.tier is not Tier.DISK:
            since = first_update + 1
        elif each.role is Role.GRADIENTS and each.tier is Tier.HOST:
            since, generations = generations, generations + 1
        for place, unit in enumerate(workload.units):
            row = shard_elements(unit.elements, num_ranks)
            is_there = unit.trainable or each.role is Role.PARAMETERS
            part = Kept(
                role=each.role,
                unit=unit.name,
                tier=each.tier,
                elements=unit.elements,
                frozen=0 if is_there else unit.elements,
                element_bytes=each.bytes,
                among=num_ranks if each.is_divided else 0,
                kept=(row if each.is_divided else row * num_ranks) if is_there else 0,
                since=since,
            )
            yield part
            is_owned = config.owners_update or (each.role is Role.PARAMETERS and config.has_owners)
            if is_owned and is_there:
                has = row * num_ranks if place % num_ranks == position else 0
                yield replace(part, elements=0, kept=has - row, cause=Cause.UNEQUAL_PARTS)


def _name(config: EngineConfig) -> str:
    """The stage's name, and the states kept off the device."""
    off = [
        said("systems.its", what=said(f"systems.{what}"), place=tier.place)
        for what, tier in (
            ("optimizer", config.offload_optimizer.tier),
            ("parameters", config.offload_param.tier),
        )
        if tier is not Tier.DEVICE
    ]
    name = term(STAGE_NAMES[config.stage])
    return said("systems.with", name=name, options=listed(off)) if off else name


# ------------------------------------------------------------------- the laws of a stage alone


def stage_states(
    stage: int,
    num_ranks: int,
    num_parameters: int,
    dtype: DType = DType.BF16,
    optimizer: Optimizer = Optimizer.ADAM,
) -> ModelStates:
    """The states of a stage with everything on the device, trainable, and in one unit.

    The laws with mixed-precision Adam, by stage: 16Ψ; 4Ψ + 12Ψ/N; 2Ψ + 14Ψ/N; 16Ψ/N.

    Args:
        stage: 0 to 3.
        num_ranks: N.
        num_parameters: Psi.
        dtype: compute dtype.
        optimizer: determines K.

    Raises:
        ConfigError: no such stage, or no ranks.
    """
    config = EngineConfig(stage=stage, dtype=dtype)
    units = (UnitSize("model", num_parameters),)
    workload = Workload(config=config, num_ranks=num_ranks, units=units)
    return zero_states(workload, optimizer=optimizer)
