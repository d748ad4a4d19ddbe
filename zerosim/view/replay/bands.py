"""The bands of a rank's card: which states lie in which tier, and how many bytes each takes."""

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
"""Master, momentum and variance where they are one file, for which `Role.MASTER` stands."""


def name_of(band: Band, config: EngineConfig | None) -> str:
    """What a band is called; of a program, which has no configuration, by its role."""
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
    """What the elements of each band are, in the short names of the field."""
    dtype, states = ("" if config is None else config.dtype.value), "fp32"
    if program is not None:
        dtype = _SHORT.get(program.dtype, program.dtype)
        has_master = Band(Role.MASTER) in bands
        states = states if has_master else dtype
    return {band: states if band.role in OPTIMIZER_STATES else dtype for band in bands}


def bands_of(config: EngineConfig) -> dict[Band, int]:
    """Bytes for one parameter by state and tier: what is kept there, and what passes through."""
    size = config.dtype.element_bytes
    found = {Band(one.role, one.tier): one.bytes for one in bytes_a_parameter(config)}
    # on the device everything is computed with, wherever it is kept
    found[Band(Role.PARAMETERS)] = found[Band(Role.GRADIENTS)] = size
    if config.has_secondary:
        found[Band(Role.SECONDARY)] = size
    if config.offload_optimizer.tier is Tier.DISK:  # one file, which goes to and fro as it is
        together = [Band(role, Tier.DISK) for role in OPTIMIZER_STATES]
        found[Band(Role.MASTER, Tier.DISK)] = sum(found.pop(band) for band in together)
    # to and from a disk the way leads through the host
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
    """The same for a program, which keeps all on its devices.

    Args:
        element_bytes: of a parameter, and of its gradient.
        optimizer: which of `OPTIMIZER_STATES` there are; beside a master copy all are in fp32.
    """
    size = FP32_BYTES if Role.MASTER in optimizer else element_bytes
    kept = {Role.PARAMETERS: element_bytes, Role.GRADIENTS: element_bytes}
    kept |= dict.fromkeys(optimizer, size)
    return {Band(role): kept[role] for role in _ORDER if role in kept}
