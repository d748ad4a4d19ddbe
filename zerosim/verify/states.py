"""Model states that were measured, held against theory: each role and unit, rank and iteration.

Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

from zerosim.analysis.memory import Holders, Timeline, updates_begin
from zerosim.config import STAGE_NAMES, DType
from zerosim.memory import MODEL_STATES, Role
from zerosim.quantities import PSI, format_exact, format_exact_bytes
from zerosim.theory import (
    Deviation,
    RoleLaw,
    UnitSize,
    exact_model_states,
    law_words,
    padded_elements,
    role_laws,
    state_deviations,
)
from zerosim.verify.report import CauseBytes, Verdict

MOMENTS = (Role.MOMENTUM, Role.VARIANCE)
"""What the first update makes."""
FIRST_UPDATE = "before the first update"
_MOST_NAMES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What decides the model states of a run.

    Attributes:
        skipped: iterations whose update was left out because of an overflow.
    """

    stage: int
    num_ranks: int
    units: tuple[UnitSize, ...]
    dtype: DType
    skipped: frozenset[int]

    @property
    def num_parameters(self) -> int:
        """Psi."""
        return sum(unit.elements for unit in self.units)

    @property
    def law(self) -> str:
        """The law in words."""
        return law_words(self.stage, self.dtype)

    @property
    def name(self) -> str:
        """The stage's name."""
        return STAGE_NAMES[self.stage]

    def role_laws(self) -> tuple[RoleLaw, ...]:
        """The law, role by role."""
        return role_laws(self.stage, self.num_ranks, self.num_parameters, self.dtype)

    def deviations(self) -> tuple[Deviation, ...]:
        """From the law to `expected` of an iteration after the first update."""
        return state_deviations(self.stage, self.num_ranks, self.units, self.dtype)

    def whole_bytes(self) -> dict[str, int]:
        """Of each unit with all its rows, in the compute dtype."""
        return {
            unit.name: padded_elements(unit.elements, self.num_ranks) * self.dtype.element_bytes
            for unit in self.units
        }

    def row_bytes(self, role: Role) -> dict[str, int]:
        """What theory gives a role on each rank, by unit; units that have none are left out."""
        return {
            unit.name: each.bytes
            for unit in self.units
            for each in exact_model_states(self.stage, self.num_ranks, (unit,), self.dtype)
            if each.role is role and each.bytes
        }

    def has_updated(self, iteration: int) -> bool:
        """True if some update came before this iteration's."""
        first = next(number for number in count() if number not in self.skipped)
        return iteration > first

    def expected(self, *, has_updated: bool) -> Holders:
        """Model states when an update begins, by role and unit.

        Args:
            has_updated: some update came before it.
        """
        return {
            (role, unit): size
            for role in MODEL_STATES
            if role not in MOMENTS or has_updated
            for unit, size in self.row_bytes(role).items()
        }


@dataclass(frozen=True, slots=True)
class StateCheck:
    """One rank when one update begins.

    Attributes:
        measured: model states by role and unit.
    """

    rank: int
    iteration: int
    expected: Holders
    measured: Holders

    def strays(self) -> Iterator[str]:
        """Each role and unit that is not what theory says, in words."""
        for role, unit in sorted(self.expected.keys() | self.measured.keys()):
            expected = self.expected.get((role, unit), 0)
            measured = self.measured.get((role, unit), 0)
            if expected != measured:
                yield (
                    f"rank {self.rank} keeps {format_exact_bytes(measured)} of {role} for "
                    f"{unit or 'an unknown unit'} when the update of iteration {self.iteration} "
                    f"begins, theory says {format_exact_bytes(expected)}"
                )


def check_states(
    plan: Plan, lines: Mapping[int, Timeline], iterations: tuple[int, ...]
) -> list[StateCheck]:
    """Every rank in every complete iteration."""
    before, after = plan.expected(has_updated=False), plan.expected(has_updated=True)
    checks = []
    for rank, line in lines.items():
        for iteration, position in updates_begin(line, iterations).items():
            state = line.at(position)
            measured = {key: size for key, size in state.items() if key[0] in MODEL_STATES}
            expected = after if plan.has_updated(iteration) else before
            checks.append(StateCheck(rank, iteration, expected, measured))
    return checks


def totals(holders: Holders) -> Counter[Role]:
    """Bytes by role."""
    found: Counter[Role] = Counter()
    for (role, _), size in holders.items():
        found[role] += size
    return found


def states_verdict(plan: Plan, checks: list[StateCheck]) -> Verdict:
    """Model states are what the law says, after named causes, on every rank in every iteration."""
    strays = [words for check in checks for words in check.strays()]
    law_bytes = sum((law.bytes for law in plan.role_laws()), Fraction())
    ranks = {check.rank for check in checks}
    whole = [check for check in checks if plan.has_updated(check.iteration)]
    if strays:
        more = f" (and {len(strays) - 1} more)" if len(strays) > 1 else ""
        measured = f"{strays[0]}{more}"
    elif not whole:
        measured = "momentum and variance come with the first update: record a second step"
    else:
        measured = f"{format_exact_bytes(sum(whole[-1].measured.values()))} on "
        measured += f"{'each of ' if len(ranks) > 1 else ''}{_count(len(ranks), 'rank')}, in "
        measured += _count(len(checks) // len(ranks), "iteration")
        parts = [
            f"{cause.cause} {'+' if cause.bytes > 0 else ''}{format_exact_bytes(cause.bytes)}"
            for cause in plan.deviations()
        ]
        measured += f", of it beside the law: {', '.join(parts)}" if parts else ""
    return Verdict(
        id="model-states",
        title=f"{plan.name[0].upper()}{plan.name[1:]} keeps {plan.law} of model states, to the "
        "byte, role by role",
        formula=f"{PSI} = {format_exact(plan.num_parameters)}, N = {plan.num_ranks}: "
        f"{format_exact_bytes(law_bytes)}",
        holds=False if strays else True if whole else None,
        measured=measured,
    )


def state_causes(plan: Plan, check: StateCheck) -> tuple[CauseBytes, ...]:
    """From the law to what was measured; the last cause, if there is any, is not excused."""
    found = [
        CauseBytes(cause=each.cause.value, bytes=each.bytes, words=each.words, is_excused=True)
        for each in plan.deviations()
    ]
    if not plan.has_updated(check.iteration):
        later = sum(sum(plan.row_bytes(role).values()) for role in MOMENTS)
        words = "momentum and variance do not exist yet"
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


def name_units(units: Iterable[str]) -> str:
    """Units in words; of many, the first ones."""
    names = [name or "an unknown unit" for name in units]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
