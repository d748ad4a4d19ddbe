"""What a program that zerosim's engine does not run should keep of its model states.

Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zerosim.analysis.memory import Holders, Timeline, updates_begin
from zerosim.memory import OUTSIDE_THE_MODEL, Role
from zerosim.record import Trace
from zerosim.strategies import Strategy, System
from zerosim.theory import Deviation, RoleLaw
from zerosim.theory.programs import KeptStates, in_force, kept_states
from zerosim.theory.programs.states import OPTIMIZER_ROLES
from zerosim.tiers import Tier
from zerosim.verify.strategies import strategies_of

_MOMENTS = (Role.MOMENTUM, Role.VARIANCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """What each rank should keep, by the law of its system. Implements `states.StatesPlan`.

    Attributes:
        of_ranks: by rank.
        first: the first iteration: its update makes momentum and variance.
    """

    of_ranks: Mapping[int, KeptStates]
    first: int

    ranks_differ: bool = True
    is_delayed: bool = False
    tiers: tuple[Tier, ...] = (Tier.DEVICE,)

    @property
    def _any(self) -> KeptStates:
        return next(iter(self.of_ranks.values()))

    @property
    def roles(self) -> tuple[Role, ...]:
        """Those that have a law."""
        return tuple(law.role for law in self._any.laws)

    @property
    def name(self) -> str:
        """Of the system."""
        return self._any.name

    @property
    def unknown(self) -> str:
        """What is kept and no role can be told of; "" if there is nothing."""
        return self._any.unknown

    @property
    def num_ranks(self) -> int:
        """N of the law."""
        return self._any.among

    @property
    def num_parameters(self) -> int:
        """Psi."""
        return self._any.num_parameters

    @property
    def what(self) -> str:
        """What the law is of: what has a role of its own."""
        if Role.GRADIENTS in self.roles:
            return "model states"
        is_all = len(self.roles) > 1
        return "parameters and optimizer's states" if is_all else "parameters"

    @property
    def keeps(self) -> str:
        """What each rank keeps."""
        return f"{self._any.words} of {self.what} on each rank"

    def measured(self, state: Holders) -> Holders:
        """What is alive of the roles that have a law; a program's storages have no units."""
        found: Counter[tuple[Role, str]] = Counter()
        for (role, unit), size in state.items():
            if role in self.roles and unit != OUTSIDE_THE_MODEL:
                found[role, ""] += size
        return dict(found)

    def law_of(self, tier: Tier) -> str:
        """The law in words; all is on the device."""
        return self._any.words if tier is Tier.DEVICE else "0"

    def role_laws(self, tier: Tier = Tier.DEVICE) -> tuple[RoleLaw, ...]:
        """Role by role."""
        return self._any.laws if tier is Tier.DEVICE else ()

    def deviations(self, rank: int, tier: Tier = Tier.DEVICE) -> tuple[Deviation, ...]:
        """From the law to `states` of a rank."""
        return self.of_ranks[rank].deviations if tier is Tier.DEVICE else ()

    def states(self, rank: int, tier: Tier = Tier.DEVICE) -> Holders:
        """By role, once it has updated; a program's storages have no units."""
        found = self.of_ranks[rank].bytes if tier is Tier.DEVICE else {}
        return {(role, ""): size for role, size in found.items() if size}

    def expected(self, rank: int, tier: Tier, iteration: int) -> Holders:
        """When an iteration's update begins."""
        states = self.states(rank, tier)
        if self.has_updated(iteration):
            return states
        return {place: size for place, size in states.items() if place[0] not in _MOMENTS}

    def has_updated(self, iteration: int) -> bool:
        """True if some update came before this iteration's."""
        return iteration > self.first

    def is_settled(self, iteration: int) -> bool:
        """False for the first update where it makes the fp32 copies as well."""
        return self.has_updated(iteration) or Role.MASTER not in self.roles


def program_plan(
    trace: Trace, lines: Mapping[int, Timeline], complete: Sequence[int]
) -> ProgramPlan | None:
    """What the ranks of a trace should keep; None where no law is known.

    Which states the optimizer keeps is taken from the trace, how many bytes they are is not.
    """
    if not complete:
        return None
    strategies = strategies_of(trace)
    last = complete[-1]
    now = {rank: _last(of_rank, last) for rank, of_rank in strategies.items()}
    systems = {one.system for of_rank in now.values() for one in of_rank}
    if not now or not all(now.values()) or System.HAND_WRITTEN in systems or set(lines) - set(now):
        return None
    seen: set[Role] = set()
    for line in lines.values():
        state = line.at(updates_begin(line, [last])[last])
        seen |= {role for role, _ in state if role in OPTIMIZER_ROLES}
    found = {rank: kept_states(now, rank, seen) for rank in lines}
    known = {rank: one for rank, one in found.items() if one is not None}
    return ProgramPlan(of_ranks=known, first=complete[0]) if len(known) == len(lines) else None


def _last(strategies: Sequence[Strategy], iteration: int) -> tuple[Strategy, ...]:
    """Those in force in the last micro-step of an iteration."""
    steps = [one.micro_step for one in strategies if one.iteration == iteration]
    return tuple(held[-1] for held in in_force(strategies, iteration, max(steps, default=0) + 1))
