"""The claims of a law, each checked in every complete iteration of every rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from zerosim.base.language import enumerated, term
from zerosim.base.quantities import first_of, format_exact_bytes
from zerosim.base.tiers import Link
from zerosim.schema.events import Algorithm
from zerosim.theory import LEFT_OUT, Cause, Deviation, Movement
from zerosim.theory.programs import Plan, PlanClaim
from zerosim.verify.attribution import WITHOUT_LAW, RankStep
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import UNEXPLAINED, CauseBytes, LedgerRow, SystemLaw, Verdict, total
from zerosim.verify.steps import TracedStep
from zerosim.verify.wording import said

WIRE_TOLERANCE = Fraction(2, 1000)
"""Largest part of the wire that may stay unexplained."""
FRAMING = "message framing"
UNDER_WAY = "under way"
UNEXPLAINED_TRACE = f"{UNEXPLAINED} (trace)"
UNEXPLAINED_WIRE = f"{UNEXPLAINED} (wire)"
OF_THE_BACKEND = frozenset({Cause.BACKEND_ALGORITHM.value, Cause.SEGMENT_ROUNDING.value})
"""Causes between the trace and the wire: how the backend implements its calls."""
UNATTRIBUTED = "attributed"
PLANNED = "planned"


@dataclass(frozen=True)
class Checked:
    """One iteration with its ledger.

    Attributes:
        rows: rows of calls and of copies.
        algorithm: the backend of all calls together, if known.
    """

    step: TracedStep
    rows: tuple[LedgerRow, ...]
    copies: tuple[LedgerRow, ...]
    algorithm: Algorithm

    def carrier(self, rank: RankStep, place: int) -> Algorithm:
        """The backend of a plan's calls: as configured, or as recorded in the calls."""
        if rank.plans[place].is_complete:
            return self.algorithm
        known = Algorithm.GLOO if self.algorithm is Algorithm.GLOO else Algorithm.RING
        return rank.carriers.get(place, known)

    def claims(self, rank: RankStep, place: int) -> tuple[PlanClaim, ...]:
        """The claims of a plan, by its index; computed once."""
        key = (rank.rank, place)
        if key not in self._claims:
            plan = rank.plans[place]
            self._claims[key] = plan.claims(rank.rank, self.carrier(rank, place))
        return self._claims[key]

    @cached_property
    def _claims(self) -> dict[tuple[int, int], tuple[PlanClaim, ...]]:
        return {}

    def rows_of(self, plan: Plan, claim: PlanClaim) -> list[LedgerRow]:
        """The rows of a claim; a plan that covers everything answers for all calls."""
        if claim.link is not None:
            return [row for row in self.copies if row.link is claim.link]
        return [
            row
            for row in self.rows
            if row.system == plan.title and claim.phase in (None, row.phase)
        ]


def cause_of(deviation: Deviation) -> CauseBytes:
    """A deviation, as a cause of a report."""
    return CauseBytes(
        cause=deviation.cause.value,
        bytes=deviation.bytes,
        words=deviation.words,
        is_excused=deviation.cause in LEFT_OUT,
    )


def without_law(rows: Iterable[LedgerRow], place: int) -> list[CauseBytes]:
    """Traffic for purposes without a law: theory only states that they depend on the model."""
    cells = [row.sent[place] for row in rows if row.has_no_law]
    without = sum(cell.trace + cell.algorithm for cell in cells)
    if not without:
        return []
    return [
        CauseBytes(
            cause=Cause.ACTIVATIONS.value,
            bytes=Fraction(without),
            words=said(WITHOUT_LAW),
            is_excused=True,
        )
    ]


def claim_verdicts(
    checked: Sequence[Checked], systems: Sequence[SystemLaw]
) -> Iterator[tuple[Verdict, Link | None]]:
    """The claims of each plan of the first rank, with their links.

    The numbers are those of the last iteration.
    """
    last = checked[-1]
    first = last.step.ranks[0]
    for place, plan in enumerate(first.plans):
        for number, claim in enumerate(last.claims(first, place)):
            found = _claim_verdict(checked, (place, number), plan, claim, systems)
            yield found, claim.link


def _claim_verdict(
    checked: Sequence[Checked],
    which: tuple[int, int],
    plan: Plan,
    claim: PlanClaim,
    systems: Sequence[SystemLaw],
) -> Verdict:
    """Whether a claim is true in every iteration on every rank.

    Rows are checked separately: an excess in one does not compensate for a deficit in another.
    """
    law = systems[which[0]]
    strays = [
        words
        for one in checked
        for rank in one.step.ranks
        for words in _strays(one, rank, plan, claim)
    ]
    differs = any(
        cause.outcome is Outcome.EXPLAINED
        for one in checked
        for rank in one.step.ranks
        for cause in _causes_of(one, rank, which, plan)
    )
    last = checked[-1]
    rows = last.rows_of(plan, claim)
    causes = [cause_of(one) for one in claim.causes] if plan.is_complete else list(law.causes)
    causes += without_law(rows, 0) if plan.is_complete else []
    native = [one for one in causes if one.cause in OF_THE_BACKEND]
    traced = Fraction(total((row.sent[0] for row in rows), "trace") or 0)
    if not plan.is_complete:
        traced = law.sent_bytes - sum((one.bytes for one in native), Fraction(0))
    measured = plan.in_words(traced, claim.link)
    if parts := [one for one in causes if one not in native]:
        measured = said("claims.overhead", measured=measured, causes=listed(parts))
    if native:
        measured = said("claims.beyond", measured=measured, causes=listed(native))
    if strays:
        measured = said("claims.then", measured=measured, more=first_of(strays))
    return Verdict(
        id=claim.id if plan.is_complete else f"law-{which[0]}",
        title=claim.title if plan.is_complete else _title(law, name_of(law, systems)),
        formula=claim.formula,
        holds=None if plan.is_likeness else not strays,
        measured=measured,
        differs=differs,
    )


def _causes_of(
    one: Checked, rank: RankStep, which: tuple[int, int], plan: Plan
) -> Iterator[CauseBytes]:
    """Why a rank's step deviates from the law, for a claim found on another rank."""
    place, number = which
    if place < len(rank.plans) and rank.plans[place].title == plan.title:
        yield from map(cause_of, one.claims(rank, place)[number].causes)
        if plan.left_to:
            hooks = (call.cause is Cause.HOOK for call in rank.calls)
            if any(hooks):
                yield CauseBytes(
                    cause=Cause.HOOK.value, bytes=Fraction(1), words="", is_excused=False
                )


def _title(law: SystemLaw, who: str) -> str:
    if law.is_likeness:
        return said("claims.nearest", law=term(law.law_name))
    return said("claims.says", who=who, law=term(law.law_name))


def name_of(law: SystemLaw, systems: Sequence[SystemLaw]) -> str:
    """A system, with the model's name if it divides several."""
    titles = [other.system for other in systems]
    system = term(law.system)
    if titles.count(law.system) == 1:
        return system
    key = "systems.of_model_made" if law.made else "systems.of_model"
    return said(key, system=system, name=law.name, made=law.made)


def what_is_unrecorded(count: int, *, more: bool = False) -> str:
    """A note that the sizes of `count` calls, or of `count` more calls, are not recorded."""
    name = f"{'one_' * (count == 1)}{'more_' * more}unrecorded"
    return said(f"claims.{name}", count=f"{count:,}")


def listed(causes: Iterable[CauseBytes | Deviation]) -> str:
    """Causes with their bytes, in one line."""
    return enumerated(
        said(
            "causes.named",
            cause=term(cause.cause),
            sign="+" if cause.bytes > 0 else "",
            bytes=format_exact_bytes(cause.bytes),
        )
        for cause in causes
    )


def _strays(one: Checked, rank: RankStep, plan: Plan, claim: PlanClaim) -> Iterator[str]:
    """Planned calls of a rank that its trace lacks, and excess bytes on its wire."""
    step, place = one.step, one.step.ranks.index(rank)
    mine = (plan.title, plan.name)
    places = {at for at, other in enumerate(rank.plans) if (other.title, other.name) == mine}
    missing = [
        call
        for at, call in rank.missing
        if at in places and call.link is claim.link and claim.phase in (None, call.phase)
    ]
    yield from groups(step.iteration, rank.rank, missing, "missing")
    if not plan.is_complete:
        return
    rows = one.rows_of(plan, claim)
    for row in rows:
        cell = row.sent[place]
        if cell.unexplained_trace:
            yield said(
                "claims.asked" if row.op is not None else "claims.copied",
                rank=rank.rank,
                bytes=format_exact_bytes(cell.trace),
                phase=term(row.phase),
                iteration=step.iteration,
                what=what_of(row),
                theory=format_exact_bytes(cell.theory or 0),
            )
    if claim.link is not None:
        return
    on_wire = sum(row.sent[place].unexplained_kernel or 0 for row in rows)
    if abs(on_wire) > WIRE_TOLERANCE * sum(row.sent[place].trace for row in rows):
        where = said(
            "claims.in_iteration" if claim.phase is None else "claims.in_phase",
            phase=term(claim.phase or ""),
            iteration=step.iteration,
        )
        yield said(
            "claims.wire_more" if on_wire > 0 else "claims.wire_less",
            bytes=format_exact_bytes(abs(on_wire)),
            rank=rank.rank,
            where=where,
        )


def what_of(row: LedgerRow | Movement) -> str:
    """The purpose of a movement, and its operation."""
    return said("claims.call", purpose=term(row.purpose or ""), way=_way(row, "claims.way"))


def _way(row: LedgerRow | Movement, copy: str) -> str:
    """The operation, or origin and target of a copy."""
    if row.op is not None:
        return term(row.op)
    return said(copy, origin=term(row.origin or ""), target=term(row.target or ""))


def groups(iteration: int, rank: int, calls: Sequence[Movement], what: str) -> Iterator[str]:
    """A line for equal calls that are missing or unplanned.

    Args:
        what: the deviation: "missing" or "unplanned".
    """
    counts = Counter(
        (c.phase, c.purpose, _way(c, "claims.copy_way"), c.buffer_bytes) for c in calls
    )
    for (phase, purpose, how, size), count in counts.items():
        yield said(
            f"claims.{what}",
            rank=rank,
            iteration=iteration,
            count=count,
            how=how,
            bytes=format_exact_bytes(size),
            phase=term(phase),
            purpose=term(purpose or ""),
        )
