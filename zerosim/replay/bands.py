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
