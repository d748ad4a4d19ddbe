"""Measured model states against theory: each role, unit and tier, rank, iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from zerosim.analysis.memory import Holders, Timeline, updates_begin
from zerosim.base.language import begun, enumerated, term
from zerosim.base.quantities import PSI, first_of, format_exact, format_exact_bytes
from zerosim.base.tiers import Tier
from zerosim.schema.memory import MODEL_STATES, MOMENTS, OUTSIDE_THE_MODEL, Role
from zerosim.theory.model_states import Place
from zerosim.verify.claims import listed
from zerosim.verify.memory_plan import MemoryPlan
from zerosim.verify.memory_report import RoleRow
from zerosim.verify.report import CauseBytes, Verdict
from zerosim.verify.wording import said

FIRST_UPDATE = "before the first update"
_MOST_NAMES = 6


@dataclass(frozen=True, slots=True)
class StateCheck:
    """One rank when one update begins, in one tier.

    Attributes:
        expected, measured: model states by role and unit.
        place: name of the tier; "" if there is no other.
    """

    rank: int
    iteration: int
    expected: Holders
    measured: Holders
    place: str = ""

    def strays(self) -> Iterator[str]:
        """Each role and unit that differs from theory, in words."""
        for role, unit in sorted(self.expected.keys() | self.measured.keys()):
            expected = self.expected.get((role, unit), 0)
            measured = self.measured.get((role, unit), 0)
            if expected != measured:
                yield said(
                    "states.stray_at" if self.place else "states.stray",
                    rank=self.rank,
                    bytes=format_exact_bytes(measured),
                    role=term(role),
                    unit=unit or said("states.unknown_unit"),
                    place=self.place,
                    iteration=self.iteration,
                    theory=format_exact_bytes(expected),
                )


def check_states(
    plan: MemoryPlan, lines: Mapping[int, Timeline], iterations: tuple[int, ...], place: str = ""
) -> list[StateCheck]:
    """Every rank in every complete iteration, in the tier of these lines.

    Args:
        place: name of the tier; "" if there is no other.
    """
    checks = []
    for rank, line in lines.items():
        has_units = any(part.unit for part in plan.of_ranks[rank].parts)
        for iteration, position in updates_begin(line, iterations).items():
            states = plan.at(rank, iteration)
            if iteration == states.unsettled:
                continue
            measured: Counter[Place] = Counter()
            for (role, unit), size in line.at(position).items():
                if role in states.roles and unit != OUTSIDE_THE_MODEL:
                    measured[role, unit if has_units else ""] += size
            expected = states.bytes(line.tier, iteration)
            checks.append(StateCheck(rank, iteration, expected, measured, place))
    return checks


def totals(holders: Holders) -> Counter[Role]:
    """Bytes by role."""
    found: Counter[Role] = Counter()
    for (role, _), size in holders.items():
        found[role] += size
    return found


def states_verdict(plan: MemoryPlan, checks: list[StateCheck], tier: Tier = Tier.DEVICE) -> Verdict:
    """Model states follow the law, up to named causes, on every rank in every iteration.

    Args:
        checks: at least one; all of `tier`.
    """
    strays = [words for check in checks for words in check.strays()]
    states, ranks = plan.first, {check.rank for check in checks}
    whole = [check for check in checks if states.is_whole(check.iteration)]
    if strays:
        measured = first_of(strays)
    elif not whole:
        measured = said("states.record_more")
    else:
        last = max(check.iteration for check in whole)
        named = _count(len(ranks), "states.ranks")
        measured = said(
            "states.on_ranks",
            sizes=_sizes([sum(c.measured.values()) for c in whole if c.iteration == last]),
            ranks=said("states.each_of", ranks=named) if len(ranks) > 1 else named,
            iterations=_count(len(checks) // len(ranks), "states.iterations"),
        )
        rank = whole[-1].rank
        if causes := listed(plan.of_ranks[rank].deviations(tier)):
            key = "states.overhead_of" if plan.ranks_differ(tier) else "states.overhead"
            measured = said(key, measured=measured, rank=rank, causes=causes)
    return Verdict(
        id="model-states" if tier is Tier.DEVICE else f"model-states-{tier}",
        title=said(
            "states.title" if states.tiers == (Tier.DEVICE,) else "states.title_at",
            name=begun(states.name),
            law=states.law(tier),
            what=states.what,
            place=tier.place,
        ),
        formula=f"{PSI} = {format_exact(states.num_parameters)}, N = {states.num_ranks}: "
        f"{format_exact_bytes(states.law_bytes(tier))}",
        holds=False if strays else True if whole else None,
        measured=measured,
    )


def _sizes(sizes: list[int]) -> str:
    """One size, or the smallest and the largest."""
    least, most = min(sizes), max(sizes)
    if least == most:
        return format_exact_bytes(most)
    return said("states.sizes", least=f"{least:,}", most=format_exact_bytes(most))


def state_causes(
    plan: MemoryPlan, check: StateCheck, tier: Tier = Tier.DEVICE
) -> tuple[CauseBytes, ...]:
    """The causes from the law to the measurement; a remainder comes last and is not excused."""
    states = plan.at(check.rank, check.iteration)
    found = [
        CauseBytes(cause=each.cause.value, bytes=each.bytes, words=each.words, is_excused=True)
        for each in states.deviations(tier)
    ]
    later = [part for part in states.parts if part.tier is tier and part.since > check.iteration]
    if missing := sum(part.bytes for part in later):
        words = said("states.not_yet")
        if all(part.role in MOMENTS for part in later):
            words = said("states.no_moments")
        found.append(
            CauseBytes(cause=FIRST_UPDATE, bytes=Fraction(-missing), words=words, is_excused=True)
        )
    gap = sum(check.measured.values()) - sum(check.expected.values())
    if gap:
        words = next(check.strays())
        found.append(
            CauseBytes(cause="unexplained", bytes=Fraction(gap), words=words, is_excused=False)
        )
    return tuple(found)


def state_rows(
    plan: MemoryPlan, checks: list[StateCheck], tier: Tier = Tier.DEVICE
) -> tuple[RoleRow, ...]:
    """The table of a tier: one row per model state that it has or should have.

    Args:
        checks: of one iteration, by rank.
    """
    if not checks:
        return ()
    expected = [totals(check.expected) for check in checks]
    measured = [totals(check.measured) for check in checks]
    laws = {law.role: law for law in plan.of(checks[0].iteration).role_laws(tier)}
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
    """Units in words; if there are many, only the first ones."""
    names = [name or said("states.unknown_unit") for name in units]
    first = enumerated(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    return said("states.and_more", names=first, count=more) if more > 0 else first


def _count(number: int, what: str) -> str:
    one, several = said.each(what, number=number)
    return one if number == 1 else several
