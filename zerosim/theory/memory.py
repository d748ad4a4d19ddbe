"""What the model states of ZeRO occupy on a rank that keeps all on the device: laws and bytes.

Model states are parameters, gradients and optimizer states. K is the number of bytes that the
optimizer keeps for a parameter: in mixed precision an fp32 master copy (4) and, for Adam, fp32
momentum (4) and variance (4), K = 12; in fp32 there is no master copy. Activations, buckets and
gathered units are not model states. `placement` says the same of states in any tier.

Source: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 3.1 (K = 12 of Adam), section 5. K
of SGD, 8 with momentum and 4 without, is derived the same way.
May import the standard library and layer L0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from zerosim.config import DType
from zerosim.memory import Role
from zerosim.theory.causes import Deviation
from zerosim.theory.partition import UnitSize
from zerosim.theory.placement import (
    Optimizer,
    Placement,
    RoleLaw,
    kept,
    placed_deviations,
    placed_laws,
    placed_states,
    placed_words,
)
from zerosim.tiers import Tier


@dataclass(frozen=True, slots=True)
class RoleBytes:
    """What one role occupies on a rank.

    Attributes:
        role: what it is kept for.
        bytes: exact.
    """

    role: Role
    bytes: int


def bytes_a_parameter(dtype: DType, optimizer: Optimizer) -> tuple[RoleBytes, ...]:
    """Bytes that each role takes for one parameter, without partitioning.

    Args:
        dtype: compute dtype: parameters and gradients are kept in it.
        optimizer: which states it keeps.
    """
    alone = Placement(stage=0, num_ranks=1, dtype=dtype, optimizer=optimizer)
    return tuple(RoleBytes(each.role, each.bytes) for each in kept(alone))


def optimizer_bytes(dtype: DType, optimizer: Optimizer) -> int:
    """K: 12, 8, 4 for Adam, SGD with momentum, SGD below fp32; 8, 4, 0 in fp32."""
    return sum(
        each.bytes
        for each in bytes_a_parameter(dtype, optimizer)
        if each.role not in (Role.PARAMETERS, Role.GRADIENTS)
    )


def ideal_model_states(
    stage: int,
    num_ranks: int,
    num_parameters: int,
    dtype: DType = DType.BF16,
    optimizer: Optimizer = Optimizer.ADAM,
) -> Fraction:
    """Bytes of model states on each rank, by the law: no padding, everything trainable.

    With mixed precision Adam: 16 Psi; 4 Psi + 12 Psi/N; 2 Psi + 14 Psi/N; 16 Psi/N.

    Args:
        stage: 0 to 3.
        num_ranks: N.
        num_parameters: Psi.
        dtype: compute dtype.
        optimizer: decides K.

    Raises:
        ConfigError: no such stage, or no ranks.
    """
    laws = role_laws(stage, num_ranks, num_parameters, dtype, optimizer)
    return sum((law.bytes for law in laws), Fraction())


def exact_model_states(
    stage: int,
    num_ranks: int,
    units: Sequence[UnitSize],
    dtype: DType = DType.BF16,
    optimizer: Optimizer = Optimizer.ADAM,
) -> tuple[RoleBytes, ...]:
    """Bytes of model states on each rank, with padding, by role; the same on every rank.

    Every unit is padded to a multiple of N, in all stages; a partitioned role keeps one row of
    N. A frozen unit has parameters only.

    Args:
        stage: 0 to 3.
        num_ranks: N.
        units: sizes of the units.
        dtype: compute dtype.
        optimizer: which states it keeps.

    Returns:
        The roles that this dtype and optimizer have, in the order of `Role`.

    Raises:
        ConfigError: no such stage, or no ranks.
    """
    placement = Placement(stage=stage, num_ranks=num_ranks, dtype=dtype, optimizer=optimizer)
    found: Counter[Role] = Counter()
    for (_, role, _), size in placed_states(placement, units, rank=0).items():
        found[role] += size
    return tuple(RoleBytes(each.role, found[each.role]) for each in kept(placement))


def law_words(stage: int, dtype: DType = DType.BF16, optimizer: Optimizer = Optimizer.ADAM) -> str:
    """The law of a stage: "16Ψ", "4Ψ + 12Ψ/N", "2Ψ + 14Ψ/N", "16Ψ/N" with mixed precision Adam.

    Raises:
        ConfigError: no such stage.
    """
    placement = Placement(stage=stage, num_ranks=1, dtype=dtype, optimizer=optimizer)
    return placed_words(placement, Tier.DEVICE)


def role_laws(
    stage: int,
    num_ranks: int,
    num_parameters: int,
    dtype: DType = DType.BF16,
    optimizer: Optimizer = Optimizer.ADAM,
) -> tuple[RoleLaw, ...]:
    """The law of each model state; together they are `ideal_model_states`.

    Raises:
        ConfigError: no such stage, or no ranks.
    """
    placement = Placement(stage=stage, num_ranks=num_ranks, dtype=dtype, optimizer=optimizer)
    return placed_laws(placement, num_parameters)


def state_deviations(
    stage: int,
    num_ranks: int,
    units: Sequence[UnitSize],
    dtype: DType = DType.BF16,
    optimizer: Optimizer = Optimizer.ADAM,
) -> tuple[Deviation, ...]:
    """Why `exact_model_states` is not what the law says, cause by cause.

    Returns:
        The causes that are not zero. Their sum is exactly the difference, in bytes of a rank.

    Raises:
        ConfigError: no such stage, or no ranks.
    """
    placement = Placement(stage=stage, num_ranks=num_ranks, dtype=dtype, optimizer=optimizer)
    return placed_deviations(placement, units, rank=0, tier=Tier.DEVICE)
