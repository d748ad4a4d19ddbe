"""The bands of a rank's card: which states lie in which tier, and how many bytes each takes.

Imports the standard library, zerosim's L0, analysis, theory.
"""

from __future__ import annotations

from zerosim.analysis.frames import Band
from zerosim.config import EngineConfig
from zerosim.memory import Role
from zerosim.theory.placement import Placement, kept
from zerosim.tiers import Tier

_ORDER = (
    Role.PARAMETERS,
    Role.SECONDARY,
    Role.GRADIENTS,
    Role.MASTER,
    Role.MOMENTUM,
    Role.VARIANCE,
)


_OPTIMIZER = (Role.MASTER, Role.MOMENTUM, Role.VARIANCE)
OPTIMIZER_FILE = "optimizer states"
"""Master, momentum and variance where they are one file, for which `Role.MASTER` stands."""


def name_of(band: Band, config: EngineConfig) -> str:
    """What a band is called."""
    is_file = config.offload_optimizer.tier is Tier.DISK and band.role is Role.MASTER
    return OPTIMIZER_FILE if is_file else band.role.value


def bands_of(config: EngineConfig) -> dict[Band, int]:
    """Bytes for one parameter by state and tier: what is kept there, and what passes through."""
    placement = Placement(
        stage=config.stage,
        num_ranks=1,  # what a state takes for one parameter does not depend on it
        dtype=config.dtype,
        states=config.offload_optimizer.tier,
        parameters=config.offload_param.tier,
        owner_broadcast=config.owner_broadcast,
    )
    size = config.dtype.element_bytes
    found = {Band(one.role, one.tier): one.bytes for one in kept(placement)}
    # on the device everything is computed with, wherever it is kept
    found[Band(Role.PARAMETERS)] = found[Band(Role.GRADIENTS)] = size
    if config.secondary_partition > 1:
        found[Band(Role.SECONDARY)] = size
    if config.offload_optimizer.tier is Tier.DISK:  # one file, which goes to and fro as it is
        together = [Band(role, Tier.DISK) for role in _OPTIMIZER]
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
