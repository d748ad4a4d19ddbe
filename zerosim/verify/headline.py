"""The answer of a verification in one sentence.

Imports zerosim's L0, theory, and this package. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from zerosim.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.record.text import name_ranks
from zerosim.theory import Cause, Workload, law, system_name
from zerosim.theory.laws import multiple
from zerosim.theory.programs import COPIED
from zerosim.verify.claims import PLANNED, name_of
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import CauseBytes, SystemLaw, Verdict


def of_zero(workload: Workload, causes: Iterable[CauseBytes], verdicts: Sequence[Verdict]) -> str:
    """Which law a run of zerosim's engine obeys, and if it is not the pure one, why.

    Args:
        causes: of what the first rank sends.
    """
    name = system_name(workload)
    copied = _copied(workload, verdicts)
    if workload.world_size == 1:
        return f"One rank of {name} has no other rank to send to{copied}."
    expected = law(workload)
    step_claim = next(verdict for verdict in verdicts if verdict.id == "sent-a-step")
    if step_claim.holds is False:
        return f"This run of {name} does not send {expected.symbols} a step: {step_claim.measured}."
    differing = [cause for cause in causes if cause.outcome is Outcome.EXPLAINED]
    if not differing:
        return f"This run of {name} sends {expected.symbols} a step{copied}, as the law says."
    unit = workload.num_parameters * workload.element_bytes * workload.ring_share
    more = sum((cause.bytes for cause in differing), Fraction(0)) / unit
    why = "; ".join(cause.words for cause in differing)
    if expected.symbols != f"{multiple(expected.payloads)}{PSI}(N-1)/N":
        extra = f"{_amount(abs(more))}{PSI}(N-1)/N a step {'more' if more > 0 else 'less'}"
        return f"This run of {name} sends {extra} than {expected.symbols}: {why}."
    actual = f"{_amount(expected.payloads + more)}{PSI}(N-1)/N"
    return f"This run of {name} sends {actual} a step, not {expected.symbols}: {why}."


def _amount(payloads: Fraction) -> str:
    """Payloads before a Psi, to two digits."""
    text = format_decimal(payloads, 2).removesuffix(".00")
    return "" if text == "1" else text


def _copied(workload: Workload, verdicts: Sequence[Verdict]) -> str:
    """What is copied between tiers, as far as it is what the law says."""
    holding = {verdict.id for verdict in verdicts if verdict.holds}
    parts = [
        f"{pure.symbols} {where}"
        for link, (identity, where) in COPIED.items()
        if identity in holding and (pure := law(workload, link=link)).payloads
    ]
    return f" and copies {' and '.join(parts)}" if parts else ""


def of_systems(
    systems: Sequence[SystemLaw], overhead: Sequence[CauseBytes], verdicts: Sequence[Verdict]
) -> str:
    """Which law the trace obeys, and if it is not the pure one, why.

    Args:
        overhead: what the first rank called and no law covers.
    """
    told = [
        cause
        for cause in overhead
        if cause.outcome is Outcome.EXPLAINED and cause.cause != Cause.NO_PLAN
    ]
    unplanned = next((one for one in verdicts if one.id == PLANNED and one.holds is None), None)
    if not systems and unplanned is not None and not told:
        return f"{unplanned.measured}."
    if systems:
        answer = " ".join(_sentence(law, name_of(law, systems), told) for law in systems)
        if told and (len(systems) > 1 or systems[0].is_likeness):
            answer += f" It also sends {_list_of(told)}."
    elif told:
        answer = f"No known law covers what this program sends: {_list_of(told)}."
    else:
        answer = "No law is known for this program: what it sends is shown as it was recorded."
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    if wrong is None:
        return answer
    said = wrong.measured.partition(" (and ")[0]
    return f"{answer} But that does not explain all of the trace: {said}."


def _list_of(causes: Sequence[CauseBytes]) -> str:
    return ", ".join(f"{format_exact_bytes(cause.bytes)} ({cause.words})" for cause in causes)


def _sentence(law: SystemLaw, who: str, told: Sequence[CauseBytes]) -> str:
    sends = " ".join((law.amount, *law.overheads))
    why = "; ".join(law.why)
    if law.is_likeness:
        like = f"like {law.law_name} ({law.formula})"
        if law.is_far:
            like = f"like no known law; the closest is that of {law.law_name} "
            like += f"({law.formula})"
        like += f" among {name_ranks(list(law.ranks))}" if told else ""
        then = f"; {why}" if why and not law.is_far else ""
        return f"This program sends {sends} a step, {like}{then}."
    if why and law.amount.replace(".00", "") == law.formula:
        return f"{who} sends {sends} a step, but not as {law.law_name} would: {why}."
    if why:
        return f"{who} sends {sends} a step, not {law.formula}: {why}."
    if len(law.formulas) > 1:
        least, most = law.formulas[0], law.formulas[-1]
        return f"{who} sends {least} to {most} a rank and step, as {law.law_name} should."
    return f"{who} sends {sends} a step, as {law.law_name} should."
