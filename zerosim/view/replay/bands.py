"""The bands of a rank's card: the states in each tier, and their bytes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from zerosim.analysis.frames import Band, ProgramUnits
from zerosim.base.config import EngineConfig
from zerosim.base.tiers import Tier
from zerosim.schema.memory import OPTIMIZER_STATES, Role
from zerosim.theory import bytes_a_parameter
from zerosim.theory.model_states import FP32_BYTES

_ORDER = (
    Role.PARAMETERS,
    Role.SECONDARY,
    Role.GRADIENTS,
    Role.MASTER,
    Role.MOMENTUM,
    Role.VARIANCE,
)


OPTIMIZER_FILE = "optimizer states"
"""Master, momentum and variance if they are one file, represented by `Role.MASTER`."""


def name_of(band: Band, config: EngineConfig | None) -> str:
    """The name of a band; for a program, without a configuration, that of its role."""
    is_file = (
        config is not None
        and config.offload_optimizer.tier is Tier.DISK
        and band.role is Role.MASTER
    )
    return OPTIMIZER_FILE if is_file else band.role.value


_SHORT = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


def dtypes_of(
    bands: Mapping[Band, int], config: EngineConfig | None, program: ProgramUnits | None
) -> dict[Band, str]:
    """The elements of each band, in the field's short names."""
    dtype, states = ("" if config is None else config.dtype.value), "fp32"
    if program is not None:
        dtype = _SHORT.get(program.dtype, program.dtype)
        has_master = Band(Role.MASTER) in bands
        states = states if has_master else dtype
    return {band: states if band.role in OPTIMIZER_STATES else dtype for band in bands}


def bands_of(config: EngineConfig) -> dict[Band, int]:
    """Bytes per parameter by state and tier: persistent, and in transit."""
    size = config.dtype.element_bytes
    found = {Band(one.role, one.tier): one.bytes for one in bytes_a_parameter(config)}
    # everything is on the device while it is used, wherever it is kept
    found[Band(Role.PARAMETERS)] = found[Band(Role.GRADIENTS)] = size
    if config.has_secondary:
        found[Band(Role.SECONDARY)] = size
    if config.offload_optimizer.tier is Tier.DISK:  # one file, copied as it is
        together = [Band(role, Tier.DISK) for role in OPTIMIZER_STATES]
        found[Band(Role.MASTER, Tier.DISK)] = sum(found.pop(band) for band in together)
    # to and from a disk via the host
    for (role, tier), bytes_each in tuple(found.items()):
        if tier is Tier.DISK:
            found[Band(role, Tier.HOST)] = bytes_each
    return {
        Band(role, tier): found[Band(role, tier)]
        for tier in Tier
        for role in _ORDER
        if Band(role, tier) in found
    }


def bands_of_program(element_bytes: int, optimizer: Collection[Role]) -> dict[Band, int]:
    """The same for a program, which keeps everything on its devices.

    Args:
        element_bytes: bytes of a parameter, and of its gradient.
        optimizer: the states that the optimizer has, of `OPTIMIZER_STATES`; with a master copy,
            all are in fp32.
    """
    size = FP32_BYTES if Role.MASTER in optimizer else element_bytes
    kept = {Role.PARAMETERS: element_bytes, Role.GRADIENTS: element_bytes}
    kept |= dict.fromkeys(optimizer, size)
    return {Band(role): kept[role] for role in _ORDER if role in kept}
