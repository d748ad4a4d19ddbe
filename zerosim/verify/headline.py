"""The result of a verification in one sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from zerosim.base.language import clauses, enumerated, joined, listed, term
from zerosim.base.quantities import PSI, format_decimal, format_exact_bytes, without_more
from zerosim.record.text import name_ranks
from zerosim.theory import Cause, Workload, law, system_name
from zerosim.theory.laws import multiple
from zerosim.theory.programs import COPIED
from zerosim.theory.programs.zero import copied
from zerosim.verify.claims import PLANNED, name_of
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import CauseBytes, SystemLaw, Verdict
from zerosim.verify.wording import said

Told = Sequence[CauseBytes]
"""Traffic that no law covers, but that a headline mentions."""
Place = tuple[int, int | None]
"""A rank, and its iteration if it is not the displayed one."""


def of_zero(workload: Workload, causes: Iterable[CauseBytes], verdicts: Sequence[Verdict]) -> str:
    """The law of a run of zerosim's engine, and the reason if it is not the pure one.

    Args:
        causes: the causes of the first rank's bytes.
    """
    name = system_name(workload)
    also = _copied(workload, verdicts)
    if workload.world_size == 1:
        return said("zero.alone", name=name, copied=also)
    expected = law(workload)
    step_claim = next(verdict for verdict in verdicts if verdict.id == "sent-a-step")
    if step_claim.holds is False:
        return said("zero.stray", name=name, law=expected.symbols, measured=step_claim.measured)
    differing = [cause for cause in causes if cause.outcome is Outcome.EXPLAINED]
    if not differing:
        return said("zero.as_law", name=name, law=expected.symbols, copied=also)
    unit = workload.num_parameters * workload.element_bytes * workload.ring_share
    more = sum((cause.bytes for cause in differing), Fraction(0)) / unit
    why = clauses(cause.words for cause in differing)
    if expected.symbols != f"{multiple(expected.payloads)}{PSI}(N-1)/N":
        extra = f"{_amount(abs(more))}{PSI}(N-1)/N"
        key = "zero.more" if more > 0 else "zero.less"
        return said(key, name=name, extra=extra, law=expected.symbols, why=why)
    actual = f"{_amount(expected.payloads + more)}{PSI}(N-1)/N"
    return said("zero.instead", name=name, actual=actual, law=expected.symbols, why=why)


def _amount(payloads: Fraction) -> str:
    """The factor in front of Psi, to two digits."""
    text = format_decimal(payloads, 2).removesuffix(".00")
    return "" if text == "1" else text


def _copied(workload: Workload, verdicts: Sequence[Verdict]) -> str:
    """The copies between tiers that follow the law."""
    holding = {verdict.id for verdict in verdicts if verdict.holds}
    parts = [
        copied(link, pure.symbols)
        for link, identity in COPIED.items()
        if identity in holding and (pure := law(workload, link=link)).payloads
    ]
    return said("zero.copies", parts=listed(parts)) if parts else ""


def of_systems(
    systems: Sequence[SystemLaw], overhead: Sequence[CauseBytes], verdicts: Sequence[Verdict]
) -> str:
    """The law of the trace, and the reason if it is not the pure one.

    Args:
        overhead: calls of the first rank that no law covers.
    """
    told = [
        cause
        for cause in overhead
        if cause.outcome is Outcome.EXPLAINED and cause.cause != Cause.NO_PLAN
    ]
    unplanned = next((one for one in verdicts if one.id == PLANNED and one.holds is None), None)
    if not systems and unplanned is not None and not told:
        return said("systems.unplanned", measured=unplanned.measured)
    if systems:
        answer = joined(_sentence(law, name_of(law, systems), told) for law in systems)
        if told and (len(systems) > 1 or systems[0].is_likeness):
            answer = said("systems.also", answer=answer, what=_list_of(told))
    elif told:
        answer = said("systems.uncovered", what=_list_of(told))
    else:
        answer = said("systems.no_law")
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    if wrong is None:
        return answer
    return said("systems.but", answer=answer, said=without_more(wrong.measured))


def with_others(answer: str, place: Place | None, told: Told) -> str:
    """An answer, followed by the traffic of another rank or iteration that no law covers.

    Args:
        place: the rank, and the iteration if it differs; None if there is no such traffic.
    """
    if place is None:
        return answer
    rank, iteration = place
    key = "systems.rank_also" if iteration is None else "systems.rank_also_in"
    return said(key, answer=answer, rank=rank, iteration=iteration, what=_list_of(told))


def _list_of(causes: Sequence[CauseBytes]) -> str:
    return enumerated(
        said("causes.list", bytes=format_exact_bytes(cause.bytes), words=cause.words)
        for cause in causes
    )


def _sentence(law: SystemLaw, who: str, told: Sequence[CauseBytes]) -> str:
    sends = " ".join((law.amount, *law.overheads)) if law.is_sent else said("systems.nothing")
    why = clauses(law.why)
    named = {"who": who, "sends": sends, "law": term(law.law_name), "formula": law.formula}
    if law.is_likeness:
        among = said("systems.among", ranks=name_ranks(list(law.ranks))) if told else ""
        then = said("systems.why", why=why) if why and not law.is_far else ""
        key = "systems.far" if law.is_far else "systems.like"
        return said(key, among=among, why=then, **named)
    if law.planned:
        return said("systems.short", planned=law.planned, **named)
    if why and law.amount.replace(".00", "") == law.formula:
        return said("systems.not_as", why=why, **named)
    if why:
        return said("systems.instead", why=why, **named)
    if len(law.formulas) > 1:
        return said("systems.from_to", least=law.formulas[0], most=law.formulas[-1], **named)
    return said("systems.as_law", **named)
