"""Model states that were measured, held against theory: each role, unit and tier, rank, iteration.

Imports zerosim's L0, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from zerosim.analysis.memory import Holders, Timeline, updates_begin
from zerosim.memory import MODEL_STATES, Role
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.theory import Deviation, RoleLaw
from zerosim.tiers import Tier
from zerosim.verify.memory_plan import PLACES
from zerosim.verify.memory_report import RoleRow
from zerosim.verify.report import CauseBytes, Verdict

FIRST_UPDATE = "before the first update"
_MOST_NAMES = 6


class StatesPlan(Protocol):
    """What decides how much of its model states a rank keeps: our engine's, or a program's."""

    @property
    def name(self) -> str:
        """Of the system."""

    @property
    def what(self) -> str:
        """What the law is of."""

    @property
    def num_ranks(self) -> int:
        """N."""

    @property
    def num_parameters(self) -> int:
        """Psi."""

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """Where model states should be; the device in any case."""

    @property
    def ranks_differ(self) -> bool:
        """Whether a rank may keep more than another."""

    @property
    def is_delayed(self) -> bool:
        """Whether the first update is made during the second iteration."""

    def law_of(self, tier: Tier) -> str:
        """The law of a tier in words."""

    def role_laws(self, tier: Tier = Tier.DEVICE) -> tuple[RoleLaw, ...]:
        """The law of a tier, role by role."""

    def deviations(self, rank: int, tier: Tier = Tier.DEVICE) -> tuple[Deviation, ...]:
        """From the law to `states` of a rank."""

    def states(self, rank: int, tier: Tier = Tier.DEVICE) -> Holders:
        """Model states of a rank in a tier once it has updated."""

    def expected(self, rank: int, tier: Tier, iteration: int) -> Holders:
        """Model states when an iteration's update begins."""

    def measured(self, state: Holders) -> Holders:
        """What of all that is alive the law is of."""

    def has_updated(self, iteration: int) -> bool:
        """True if some update came before this iteration's."""

    def is_settled(self, iteration: int) -> bool:
        """False while the very first update may be under way."""


@dataclass(frozen=True, slots=True)
class StateCheck:
    """One rank when one update begins, in one tier.

    Attributes:
        expected, measured: model states by role and unit.
        place: of the tier, in words; "" where there is no other.
    """

    rank: int
    iteration: int
    expected: Holders
    measured: Holders
    place: str = ""

    def strays(self) -> Iterator[str]:
        """Each role and unit that is not what theory says, in words."""
        where = f" {self.place}" if self.place else ""
        for role, unit in sorted(self.expected.keys() | self.measured.keys()):
            expected = self.expected.get((role, unit), 0)
            measured = self.measured.get((role, unit), 0)
            if expected != measured:
                yield (
                    f"rank {self.rank} keeps {format_exact_bytes(measured)} of {role} for "
                    f"{unit or 'an unknown unit'}{where} when the update of iteration "
                    f"{self.iteration} begins, theory says {format_exact_bytes(expected)}"
                )


def check_states(
    plan: StatesPlan, lines: Mapping[int, Timeline], iterations: tuple[int, ...], place: str = ""
) -> list[StateCheck]:
    """Every rank in every complete iteration, in the tier of these lines.

    Args:
        place: of the tier, in words; "" where there is no other.
    """
    checks = []
    for rank, line in lines.items():
        for iteration, position in updates_begin(line, iterations).items():
            if not plan.is_settled(iteration):
                continue
            state = line.at(position)
            measured = plan.measured(state)
            expected = plan.expected(rank, line.tier, iteration)
            checks.append(StateCheck(rank, iteration, expected, measured, place))
    return checks


def totals(holders: Holders) -> Counter[Role]:
    """Bytes by role."""
    found: Counter[Role] = Counter()
    for (role, _), size in holders.items():
        found[role] += size
    return found


def states_verdict(plan: StatesPlan, checks: list[StateCheck], tier: Tier = Tier.DEVICE) -> Verdict:
    """Model states are what the law says, after named causes, on every rank in every iteration.

    Args:
        checks: at least one; all of `tier`.
    """
    strays = [words for check in checks for words in check.strays()]
    law_bytes = sum((law.bytes for law in plan.role_laws(tier)), Fraction())
    ranks = {check.rank for check in checks}
    whole = [check for check in checks if plan.has_updated(check.iteration)]
    if strays:
        more = f" (and {len(strays) - 1} more)" if len(strays) > 1 else ""
        measured = f"{strays[0]}{more}"
    elif not whole:
        measured = "momentum and variance come with the first update: record a second step"
    else:
        last = max(check.iteration for check in whole)
        measured = _sizes([sum(c.measured.values()) for c in whole if c.iteration == last])
        measured += f" on {'each of ' if len(ranks) > 1 else ''}{_count(len(ranks), 'rank')}, in "
        measured += _count(len(checks) // len(ranks), "iteration")
        parts = [
            f"{cause.cause} {'+' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}"
            for cause in plan.deviations(whole[-1].rank, tier)
        ]
        of_rank = f" of rank {whole[-1].rank}" if plan.ranks_differ else ""
        measured += f", of which overhead{of_rank}: {', '.join(parts)}" if parts else ""
    is_only = plan.tiers == (Tier.DEVICE,)
    place = "" if is_only else f" {PLACES[tier]}"
    return Verdict(
        id="model-states" if tier is Tier.DEVICE else f"model-states-{tier}",
        title=f"{plan.name[0].upper()}{plan.name[1:]} keeps {plan.law_of(tier)} of {plan.what}"
        f"{place}, to the byte, role by role",
        formula=f"{PSI} = {format_exact(plan.num_parameters)}, N = {plan.num_ranks}: "
        f"{format_exact_bytes(law_bytes)}",
        holds=False if strays else True if whole else None,
        measured=measured,
    )


def _sizes(sizes: list[int]) -> str:
    """One size, or the smallest and the largest."""
    least, most = min(sizes), max(sizes)
    return format_exact_bytes(most) if least == most else f"{least:,} to {format_exact_bytes(most)}"


def state_causes(
    plan: StatesPlan, check: StateCheck, tier: Tier = Tier.DEVICE
) -> tuple[CauseBytes, ...]:
    """From the law to what was measured; the last cause, if there is any, is not excused."""
    found = [
        CauseBytes(cause=each.cause.value, bytes=each.bytes, words=each.words, is_excused=True)
        for each in plan.deviations(check.rank, tier)
    ]
    later = sum(plan.states(check.rank, tier).values()) - sum(check.expected.values())
    if later:
        words = (
            "momentum and variance do not exist yet"
            if not plan.is_delayed
            else "what the first update makes or keeps does not exist yet"
        )
        found.append(
            CauseBytes(cause=FIRST_UPDATE, bytes=Fraction(-later), words=words, is_excused=True)
        )
    gap = sum(check.measured.values()) - sum(check.expected.values())
    if gap:
        words = next(check.strays())
        found.append(
            CauseBytes(cause="unexplained", bytes=Fraction(gap), words=words, is_excused=False)
        )
    return tuple(found)


def state_rows(
    plan: StatesPlan, checks: list[StateCheck], tier: Tier = Tier.DEVICE
) -> tuple[RoleRow, ...]:
    """The table of a tier: one row for each model state that it has or should have.

    Args:
        checks: of one iteration, by rank.
    """
    if not checks:
        return ()
    expected = [totals(check.expected) for check in checks]
    measured = [totals(check.measured) for check in checks]
    laws = {law.role: law for law in plan.role_laws(tier)}
    roles = [
        role for role in MODEL_STATES if role in laws or any(found[role] for found in measured)
    ]
    return tuple(
        RoleRow(
            role=role,
            law=laws[role].words if role in laws else "",
            law_bytes=laws[role].bytes if role in laws else Fraction(),
            theory_bytes=expected[0][role],
            measured_bytes=tuple(found[role] for found in measured),
            theory_of_ranks=tuple(found[role] for found in expected),
        )
        for role in roles
    )


def name_units(units: Iterable[str]) -> str:
    """Units in words; of many, the first ones."""
    names = [name or "an unknown unit" for name in units]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
