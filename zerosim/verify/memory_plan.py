"""What a run should keep of its model states: where, how much, from which iteration on.

Imports zerosim's L0, record, theory and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from zerosim.analysis.memory import Holders
from zerosim.config import STAGE_NAMES, EngineConfig
from zerosim.memory import MODEL_STATES, Role
from zerosim.record import Trace
from zerosim.theory import (
    Deviation,
    Placement,
    RoleLaw,
    UnitSize,
    padded_elements,
    placed_deviations,
    placed_laws,
    placed_states,
    placed_words,
    secondary_bytes,
)
from zerosim.tiers import Tier
from zerosim.verify.configured import tensor_parallel_of, unit_sizes

MOMENTS = (Role.MOMENTUM, Role.VARIANCE)
"""What the first update makes; on a disk they are there from the beginning, as zeros."""
PLACES = {Tier.DEVICE: "on the device", Tier.HOST: "on the host", Tier.DISK: "on the disk"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """What decides the model states of a run, and what it keeps beside them.

    Attributes:
        placement: where they are.
        units: in the order of the manifest.
        skipped: iterations whose update was left out because of an overflow.
        ranks_together: ranks that compute each layer together (tensor parallel); the states are
            divided among those with the same part.
        secondary: bytes of each unit that hpZ keeps from forward to the update.
    """

    placement: Placement
    units: tuple[UnitSize, ...]
    skipped: frozenset[int] = frozenset()
    ranks_together: int = 1
    secondary: Mapping[str, int]

    @property
    def stage(self) -> int:
        """0 to 3."""
        return self.placement.stage

    @property
    def num_ranks(self) -> int:
        """N."""
        return self.placement.num_ranks

    @property
    def what(self) -> str:
        """What the law is of."""
        return "model states"

    @property
    def ranks_differ(self) -> bool:
        """Whether a rank may keep more than another."""
        return self.placement.owner_broadcast

    @property
    def is_delayed(self) -> bool:
        """Whether the first update is made during the second iteration."""
        return self.placement.delayed_update

    def measured(self, state: Holders) -> Holders:
        """The model states of what is alive, by role and unit."""
        return {key: size for key, size in state.items() if key[0] in MODEL_STATES}

    @property
    def num_parameters(self) -> int:
        """Psi."""
        return sum(unit.elements for unit in self.units)

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Where model states should be; the device in any case."""
        return self.placement.tiers

    @property
    def law(self) -> str:
        """The law of the device in words."""
        return self.law_of(Tier.DEVICE)

    def law_of(self, tier: Tier) -> str:
        """The law of a tier in words; "0" if nothing should be there."""
        return placed_words(self.placement, tier)

    @property
    def keeps(self) -> str:
        """What each rank keeps, by the laws of all tiers.

        "16Ψ/N of model states on each rank", or "model states of 2Ψ on the device, 14Ψ/N on the
        host of each rank".
        """
        if self.tiers == (Tier.DEVICE,):
            return f"{self.law} of model states on each rank"
        laws = ", ".join(f"{self.law_of(tier)} {PLACES[tier]}" for tier in self.tiers)
        return f"model states of {laws} of each rank"

    @property
    def name(self) -> str:
        """The stage's name, and what is kept off the device."""
        placement, off = self.placement, []
        if placement.states is not Tier.DEVICE:
            off.append(f"its optimizer {PLACES[placement.states]}")
        if placement.parameters is not Tier.DEVICE:
            off.append(f"its parameters {PLACES[placement.parameters]}")
        return STAGE_NAMES[self.stage] + (f" with {' and '.join(off)}" if off else "")

    def role_laws(self, tier: Tier = Tier.DEVICE) -> tuple[RoleLaw, ...]:
        """The law of a tier, role by role."""
        laws = placed_laws(self.placement, self.num_parameters)
        return tuple(law for law in laws if law.tier is tier)

    def deviations(self, rank: int, tier: Tier = Tier.DEVICE) -> tuple[Deviation, ...]:
        """From the law to `states` of a rank."""
        return placed_deviations(self.placement, self.units, self._own_number(rank), tier)

    def whole_bytes(self) -> dict[str, int]:
        """Of each unit with all its rows, in the compute dtype."""
        size = self.placement.dtype.element_bytes
        return {
            unit.name: padded_elements(unit.elements, self.num_ranks) * size for unit in self.units
        }

    def states(self, rank: int, tier: Tier = Tier.DEVICE) -> Holders:
        """Model states of a rank in a tier once it has updated, by role and unit."""
        found = placed_states(self.placement, self.units, self._own_number(rank))
        return {(role, unit): size for (of, role, unit), size in found.items() if of is tier}

    def row_bytes(self, role: Role) -> dict[str, int]:
        """What theory gives a role on every device, by unit; units that have none are left out."""
        return {unit: size for (of, unit), size in self.states(0).items() if of is role}

    def has_updated(self, iteration: int) -> bool:
        """True if some update came before this iteration's."""
        return iteration > self._first_updated

    def is_settled(self, iteration: int) -> bool:
        """False while the very first update may be under way beside what is computed."""
        first = self._first_updated
        return not self.placement.delayed_update or iteration != first + 1

    def expected(self, rank: int, tier: Tier, iteration: int) -> Holders:
        """Model states when an iteration's update begins, by role and unit."""
        states = self.states(rank, tier)
        if tier is Tier.HOST and self.placement.delayed_update and iteration == 0:
            states |= {  # the second generation comes with the second iteration
                place: size // 2 for place, size in states.items() if place[0] is Role.GRADIENTS
            }
        if self.has_updated(iteration) or tier is Tier.DISK:
            return states
        return {place: size for place, size in states.items() if place[0] not in MOMENTS}

    @property
    def _first_updated(self) -> int:
        return next(number for number in count() if number not in self.skipped)

    def _own_number(self, rank: int) -> int:
        """The rank's number among those that the states are divided among."""
        return rank // self.ranks_together


def plan_of(trace: Trace, config: EngineConfig) -> MemoryPlan:
    """What decides the model states of a trace."""
    manifest = trace.manifest
    ranks_together = tensor_parallel_of(trace)
    num_ranks = manifest.num_ranks // ranks_together
    units = unit_sizes(manifest.units)
    size = config.dtype.element_bytes
    return MemoryPlan(
        placement=Placement(
            stage=config.stage,
            num_ranks=num_ranks,
            dtype=config.dtype,
            states=config.offload_optimizer.tier,
            parameters=config.offload_param.tier,
            owner_broadcast=config.owner_broadcast,
            delayed_update=config.delayed_update,
        ),
        units=units,
        skipped=frozenset(m.iteration for m in trace.ranks[0].metrics if m.name == "overflow"),
        ranks_together=ranks_together,
        secondary=secondary_bytes(units, num_ranks, config.secondary_partition, size),
    )
