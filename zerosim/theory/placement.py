"""Where the model states of a rank lie: the device, the host, the disk, tier by tier.

ZeRO-Offload keeps the parameters in the compute dtype on the device, and gradients and the
optimizer's fp32 states on the host, where they are updated: with mixed precision Adam 2 Psi there
and 14 Psi here, divided among the ranks as the stage divides them. ZeRO-Infinity keeps the
optimizer's states, and in stage 3 the parameters, on the host or on a disk. Its paper counts 20
bytes a parameter, because its optimizer also keeps gradients in fp32; here gradients stay in the
compute dtype, which makes 16.

Sources: J. Ren et al., "ZeRO-Offload" (arXiv 2101.06840), sections 3.2 and 4; S. Rajbhandari et
al., "ZeRO-Infinity" (arXiv 2104.07857), sections 3 (20 bytes), 5.1 and 6.1; "ZeRO" (arXiv
1910.02054), sections 3.1 (K of Adam; those of SGD are derived the same way) and 5. May import the
standard library and layer L0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zerosim.config import STAGES, DType
from zerosim.errors import ConfigError
from zerosim.memory import Role
from zerosim.quantities import PSI, format_exact
from zerosim.theory.causes import Cause, Deviation
from zerosim.theory.partition import (
    UnitSize,
    padded_elements,
    padding_elements,
    shard_elements,
)
from zerosim.tiers import Tier

FP32_BYTES = 4


class Optimizer(StrEnum):
    """The optimizers whose states have a law."""

    ADAM = "adam"
    MOMENTUM = "sgd with momentum"
    SGD = "sgd"


_MOMENTS = {
    Optimizer.ADAM: (Role.MOMENTUM, Role.VARIANCE),
    Optimizer.MOMENTUM: (Role.MOMENTUM,),
    Optimizer.SGD: (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What decides how much of each model state a rank keeps, and where.

    Attributes:
        stage: 0 to 3.
        num_ranks: N.
        dtype: compute dtype: parameters and gradients are kept in it.
        optimizer: which states it keeps.
        states: tier of the optimizer's states; they are updated on the host if it is not the
            device, and reduced gradients are kept there.
        parameters: stage 3: tier of the parameters that a rank keeps.
        owner_broadcast: stage 3: unit i is kept whole by rank i % N.
        delayed_update: with `states` off the device: two generations of reduced gradients, one
            that backward fills and one that the update before reads.

    Raises:
        ConfigError: no such stage, no ranks, or a tier that the stage does not know.
    """

    stage: int
    num_ranks: int
    dtype: DType = DType.BF16
    optimizer: Optimizer = Optimizer.ADAM
    states: Tier = Tier.DEVICE
    parameters: Tier = Tier.DEVICE
    owner_broadcast: bool = False
    delayed_update: bool = False

    def __post_init__(self) -> None:
        if self.stage not in STAGES or self.num_ranks < 1:
            raise ConfigError(
                f"stage {self.stage} on {self.num_ranks} ranks: expected stage 0, 1, 2 or 3 and 1 "
                "or more ranks"
            )
        if self.updates_on_host and self.stage < 1:
            raise ConfigError("optimizer states off the device in stage 0: expected 1, 2 or 3")
        if self.parameters is not Tier.DEVICE and self.stage < 3:
            raise ConfigError(f"parameters off the device in stage {self.stage}: expected 3")

    @property
    def updates_on_host(self) -> bool:
        """The optimizer works on the host."""
        return self.states is not Tier.DEVICE

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Where model states are; the device first, in any case."""
        found = {each.tier for each in kept(self)}
        return tuple(tier for tier in Tier if tier is Tier.DEVICE or tier in found)


@dataclass(frozen=True, slots=True)
class Kept:
    """What one role takes in one tier.

    Attributes:
        bytes: for one parameter, without partitioning.
        is_divided: each rank keeps one row of N.
    """

    tier: Tier
    role: Role
    bytes: int
    is_divided: bool


def kept(placement: Placement) -> tuple[Kept, ...]:
    """What every role takes, in the order of the tiers and, within one, of `Role`."""
    stage, size = placement.stage, placement.dtype.element_bytes
    found = [Kept(placement.parameters, Role.PARAMETERS, size, stage >= 3)]
    if not placement.updates_on_host or stage == 1:
        found.append(Kept(Tier.DEVICE, Role.GRADIENTS, size, stage >= 2))
    if placement.updates_on_host:
        generations = 2 if placement.delayed_update else 1
        found.append(Kept(Tier.HOST, Role.GRADIENTS, generations * size, is_divided=True))
    roles = (*((Role.MASTER,) if _has_master(placement) else ()), *_MOMENTS[placement.optimizer])
    found += [Kept(placement.states, role, FP32_BYTES, stage >= 1) for role in roles]
    order = list(Tier)
    return tuple(sorted(found, key=lambda each: order.index(each.tier)))


def _has_master(placement: Placement) -> bool:
    """In fp32 a row is its own master, if it lies whole where the optimizer works."""
    if placement.dtype is not DType.FP32 or placement.owner_broadcast:
        return True
    return placement.states is Tier.DISK or placement.states is not placement.parameters


Place = tuple[Tier, Role, str]
"""A tier, a role and a unit."""


def placed_states(placement: Placement, units: Sequence[UnitSize], rank: int) -> dict[Place, int]:
    """Bytes of model states of a rank by tier, role and unit, with padding; without zeros.

    Every unit is padded to a multiple of N; what is divided keeps one row of N. A frozen unit has
    parameters only. Only with `owner_broadcast` ranks differ.

    Args:
        units: in the order of the manifest, which is that of their owners.
        rank: within the N ranks.
    """
    found: dict[Place, int] = {}
    for each in kept(placement):
        for position, unit in enumerate(units):
            if not unit.trainable and each.role is not Role.PARAMETERS:
                continue
            whole = each.bytes * padded_elements(unit.elements, placement.num_ranks)
            if each.role is Role.PARAMETERS and placement.owner_broadcast:
                size = whole if position % placement.num_ranks == rank else 0
            else:
                size = whole // placement.num_ranks if each.is_divided else whole
            if size:
                found[each.tier, each.role, unit.name] = size
    return found


@dataclass(frozen=True, slots=True)
class RoleLaw:
    """What the law says of one role in one tier.

    Attributes:
        words: "2Ψ", "4Ψ/N".
        bytes: on each rank.
    """

    role: Role
    words: str
    bytes: Fraction
    tier: Tier = Tier.DEVICE


def placed_laws(placement: Placement, num_parameters: int) -> tuple[RoleLaw, ...]:
    """The law of each model state in each tier.

    Args:
        num_parameters: Psi.
    """
    return tuple(
        RoleLaw(
            each.role,
            f"{each.bytes}{PSI}{'/N' if each.is_divided else ''}",
            Fraction(each.bytes * num_parameters, placement.num_ranks if each.is_divided else 1),
            each.tier,
        )
        for each in kept(placement)
    )


def placed_words(placement: Placement, tier: Tier) -> str:
    """The law of a tier: "2Ψ" and "14Ψ/N" of ZeRO-2 with Adam's states on the host; or "0"."""
    whole = divided = 0
    for each in kept(placement):
        if each.tier is tier and each.is_divided:
            divided += each.bytes
        elif each.tier is tier:
            whole += each.bytes
    parts = [f"{number}{PSI}{rest}" for number, rest in ((whole, ""), (divided, "/N")) if number]
    return " + ".join(parts) or "0"


def placed_deviations(
    placement: Placement, units: Sequence[UnitSize], rank: int, tier: Tier
) -> tuple[Deviation, ...]:
    """Why `placed_states` is not what the law of a tier says, cause by cause.

    Returns:
        The causes that are not zero. Their sum is exactly the difference, in bytes of the rank.
    """
    num_ranks = placement.num_ranks
    sizes = {flag: sum(u.elements for u in units if u.trainable is flag) for flag in (True, False)}
    laws = [law for law in placed_laws(placement, sum(sizes.values())) if law.tier is tier]
    share = Fraction(sizes[False], sum(sizes.values()))
    frozen = -sum(
        (law.bytes * share for law in laws if law.role is not Role.PARAMETERS), Fraction()
    )
    exact = sum(
        size for (of, _, _), size in placed_states(placement, units, rank).items() if of is tier
    )
    owned = 0
    if placement.owner_broadcast and tier is placement.parameters:
        for position, unit in enumerate(units):
            row = shard_elements(unit.elements, num_ranks) * placement.dtype.element_bytes
            owned += (num_ranks if position % num_ranks == rank else 0) * row - row
    padding = sum(padding_elements(unit.elements, num_ranks) for unit in units)
    found = (
        Deviation(
            Cause.PADDING,
            exact - owned - sum((law.bytes for law in laws), Fraction()) - frozen,
            f"{format_exact(padding)} zeros make the units a multiple of {num_ranks}",
        ),
        Deviation(
            Cause.FROZEN_PARAMETERS,
            frozen,
            f"{format_exact(sizes[False])} frozen parameters have no gradients and no optimizer "
            "states",
        ),
        Deviation(
            Cause.UNEQUAL_PARTS,
            Fraction(owned),
            f"unit i is kept whole by rank i % {num_ranks}, and by no other",
        ),
    )
    return tuple(deviation for deviation in found if deviation.bytes)
