"""What the model states of ZeRO occupy on a rank: the laws, and the exact bytes.

Model states are parameters, gradients and optimizer states. K is the number of bytes that the
optimizer keeps for a parameter: in mixed precision an fp32 master copy (4) and, for Adam, fp32
momentum (4) and variance (4), K = 12; in fp32 there is no master copy. Activations, buckets and
gathered units are not model states.

Source: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 3.1 (K), section 5.
May import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from zerosim.config import STAGES, DType
from zerosim.errors import ConfigError
from zerosim.memory import Role
from zerosim.quantities import PSI, format_exact
from zerosim.theory.laws import Cause, Deviation
from zerosim.theory.partition import UnitSize, padded_elements, padding_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_PARTITIONED_FROM = {Role.PARAMETERS: 3, Role.GRADIENTS: 2}
"""The first stage in which a role is partitioned; 1 for the optimizer's states."""


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
    roles = [
        RoleBytes(Role.PARAMETERS, dtype.element_bytes),
        RoleBytes(Role.GRADIENTS, dtype.element_bytes),
    ]
    if dtype is not DType.FP32:
        roles.append(RoleBytes(Role.MASTER, FP32_BYTES))
    roles += [RoleBytes(role, FP32_BYTES) for role in _MOMENTS[optimizer]]
    return tuple(roles)


def optimizer_bytes(dtype: DType, optimizer: Optimizer) -> int:
    """K: 12, 8, 4 for Adam, SGD with momentum, SGD below fp32; 8, 4, 0 in fp32."""
    return sum(
        each.bytes
        for each in bytes_a_parameter(dtype, optimizer)
        if each.role not in _PARTITIONED_FROM
    )


def _check(stage: int, num_ranks: int) -> None:
    if stage not in STAGES or num_ranks < 1:
        raise ConfigError(
            f"stage {stage} on {num_ranks} ranks: expected stage 0, 1, 2 or 3 and 1 or more ranks"
        )


def _is_partitioned(role: Role, stage: int) -> bool:
    return stage >= _PARTITIONED_FROM.get(role, 1)


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
    _check(stage, num_ranks)
    total = Fraction(0)
    for each in bytes_a_parameter(dtype, optimizer):
        held_by = num_ranks if _is_partitioned(each.role, stage) else 1
        total += Fraction(each.bytes * num_parameters, held_by)
    return total


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
    _check(stage, num_ranks)
    states = []
    for each in bytes_a_parameter(dtype, optimizer):
        num_elements = sum(
            padded_elements(unit.elements, num_ranks)
            for unit in units
            if unit.trainable or each.role is Role.PARAMETERS
        )
        held_by = num_ranks if _is_partitioned(each.role, stage) else 1
        states.append(RoleBytes(each.role, each.bytes * num_elements // held_by))
    return tuple(states)


def law_words(stage: int, dtype: DType = DType.BF16, optimizer: Optimizer = Optimizer.ADAM) -> str:
    """The law of a stage: "16Ψ", "4Ψ + 12Ψ/N", "2Ψ + 14Ψ/N", "16Ψ/N" with mixed precision Adam.

    Raises:
        ConfigError: no such stage.
    """
    _check(stage, 1)
    whole = divided = 0
    for each in bytes_a_parameter(dtype, optimizer):
        if _is_partitioned(each.role, stage):
            divided += each.bytes
        else:
            whole += each.bytes
    return " + ".join(
        f"{number}{PSI}{rest}" for number, rest in ((whole, ""), (divided, "/N")) if number
    )


@dataclass(frozen=True, slots=True)
class RoleLaw:
    """What the law says of one role.

    Attributes:
        words: "2Ψ", "4Ψ/N".
        bytes: on each rank.
    """

    role: Role
    words: str
    bytes: Fraction


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
    _check(stage, num_ranks)
    laws = []
    for each in bytes_a_parameter(dtype, optimizer):
        is_divided = _is_partitioned(each.role, stage)
        words = f"{each.bytes}{PSI}{'/N' if is_divided else ''}"
        held_by = num_ranks if is_divided else 1
        laws.append(RoleLaw(each.role, words, Fraction(each.bytes * num_parameters, held_by)))
    return tuple(laws)


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
    sizes = {flag: sum(u.elements for u in units if u.trainable is flag) for flag in (True, False)}
    padding = sum(padding_elements(unit.elements, num_ranks) for unit in units)
    laws = role_laws(stage, num_ranks, sizes[True] + sizes[False], dtype, optimizer)
    share = Fraction(sizes[False], sizes[True] + sizes[False])
    frozen = -sum(
        (law.bytes * share for law in laws if law.role is not Role.PARAMETERS), Fraction()
    )
    exact = sum(
        each.bytes for each in exact_model_states(stage, num_ranks, units, dtype, optimizer)
    )
    found = (
        Deviation(
            Cause.PADDING,
            exact - sum((law.bytes for law in laws), Fraction()) - frozen,
            f"{format_exact(padding)} zeros make the units a multiple of {num_ranks}",
        ),
        Deviation(
            Cause.FROZEN_PARAMETERS,
            frozen,
            f"{format_exact(sizes[False])} frozen parameters have no gradients and no optimizer "
            "states",
        ),
    )
    return tuple(deviation for deviation in found if deviation.bytes)
