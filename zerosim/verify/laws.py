"""The bytes of a rank under each law, and the causes from there to the wire."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.base.language import term
from zerosim.schema.events import STEP_PHASES, Algorithm
from zerosim.theory import LEFT_OUT, Cause
from zerosim.theory.programs import Plan
from zerosim.verify.attribution import CallStanding, RankStep
from zerosim.verify.claims import (
    FRAMING,
    UNDER_WAY,
    UNEXPLAINED_TRACE,
    UNEXPLAINED_WIRE,
    Checked,
    cause_of,
)
from zerosim.verify.outcome import Outcome
from zerosim.verify.report import CauseBytes, SystemLaw
from zerosim.verify.steps import TracedStep
from zerosim.verify.wording import said

_UNSAID = frozenset({Cause.SEGMENT_ROUNDING, Cause.UNEQUAL_PARTS, Cause.OUTSIDE})
"""Causes omitted in a headline: a rank's part relative to the mean, and calls outside of the
step.
"""


def laws_of(one: Checked) -> tuple[SystemLaw, ...]:
    """The law of each strategy of the first rank in a step."""
    first = one.step.ranks[0]
    overhead = overhead_of(first)
    return tuple(law_of(one, place, overhead) for place in range(len(first.plans)))


def law_of(one: Checked, place: int, overhead: Sequence[CauseBytes]) -> SystemLaw:
    """One strategy's law.

    Args:
        overhead: calls without a plan, which are listed with this plan if it is the only one.
    """
    step = one.step.ranks[0]
    plan, algorithm = step.plans[place], one.carrier(step, place)
    unplanned = overhead if len(step.plans) == 1 else ()
    hooked = _hooked(step) if plan.left_to else 0
    causes = tuple(map(cause_of, plan.deviations(step.rank, algorithm)))
    if hooked:
        who = next(iter(plan.left_to.values()))
        words = said("causes.hook", who=who, size=plan.scale.in_units(hooked))
        hook = CauseBytes(
            cause=Cause.HOOK.value, bytes=Fraction(hooked), words=words, is_excused=False
        )
        causes = (*causes, hook)
    told = [cause for cause in (*causes, *unplanned) if cause.outcome is Outcome.EXPLAINED]
    if plan.is_likeness:  # the recorded calls, with any backend and without a plan
        of_likeness = (
            Cause.UNLIKE,
            Cause.KEPT_PARAMETERS,
            Cause.REDUCTION_DTYPE,
            Cause.GATHER_DTYPE,
        )
        told = [cause for cause in causes if cause.cause in of_likeness]
    beyond = sum((cause.bytes for cause in told), Fraction(0))
    missing = [call for at, call in step.missing if at == place and call.op is not None]
    unsent = sum(call.cost(step.rank, algorithm).sent_bytes for call in missing)
    planned = plan.law.sent_bytes + beyond
    sent_bytes = plan.law.sent_bytes + sum((cause.bytes for cause in causes), Fraction(0))
    return SystemLaw(
        system=plan.title,
        name=plan.name,
        ranks=plan.ranks,
        law_name=plan.law_name,
        formula=plan.formula,
        formulas=_formulas(plan, one.step),
        words=plan.law.words,
        source=plan.law.source,
        unit=plan.scale.unit,
        unit_bytes=plan.scale.unit_bytes,
        payloads=plan.law.payloads,
        law_bytes=plan.law.sent_bytes,
        sent_bytes=sent_bytes,
        amount=plan.scale.amount(planned - unsent),
        planned=plan.scale.amount(planned) if unsent else "",
        is_sent=max(sent_bytes, planned) > unsent,
        why=tuple(_why(plan, causes, unplanned)),
        overheads=tuple(_overheads(plan, (*causes, *unplanned))),
        causes=causes,
        is_likeness=plan.is_likeness,
        is_far=plan.is_far,
        made=plan.made,
    )


def _why(
    plan: Plan, causes: Sequence[CauseBytes], unplanned: Sequence[CauseBytes]
) -> Iterator[str]:
    """Why a step sends something different from the law."""
    for cause in causes:
        if cause.outcome is Outcome.EXPLAINED and cause.cause != Cause.UNLIKE:
            yield cause.words
    for cause in unplanned:
        if cause.outcome is Outcome.EXPLAINED and not plan.is_likeness:
            yield said("causes.why", words=cause.words, size=plan.scale.in_units(cause.bytes))


def _overheads(plan: Plan, causes: Sequence[CauseBytes]) -> Iterator[str]:
    """Traffic that the law omits, if it is visible in two digits of the law's unit."""
    sizes: dict[str, Fraction] = defaultdict(Fraction)
    for cause in causes:
        if cause.outcome is Outcome.AS_PREDICTED and cause.cause not in _UNSAID:
            sizes[cause.cause] += cause.bytes
    for name, size in sizes.items():
        if text := plan.scale.in_digits(size):
            yield said("causes.overhead", size=text, cause=term(name))


def _formulas(plan: Plan, step: TracedStep) -> tuple[str, ...]:
    """The law of the same strategy on every rank."""
    alike = [
        other
        for rank in step.ranks
        for other in rank.plans
        if (other.title, other.name) == (plan.title, plan.name)
    ]
    alike.sort(key=lambda other: other.law.sent_bytes)
    return tuple(dict.fromkeys(other.formula for other in alike))


def _hooked(step: RankStep) -> int:
    """The traffic of a communication hook as recorded, because theory cannot predict it."""
    return sum(call.share.moved.sent_bytes for call in step.calls if call.cause is Cause.HOOK)


def causes_to_wire(
    one: Checked, systems: Sequence[SystemLaw], overhead: Sequence[CauseBytes], backend: str
) -> tuple[CauseBytes, ...]:
    """The causes from all laws together to the wire, for the first rank."""
    step = one.step
    first, wire = step.ranks[0], step.wires[0]
    if not systems and not step.is_told:
        return ()
    found = [cause for law in systems for cause in law.causes]
    found += overhead
    calls = [call for call in first.calls if call.call.op is not None]
    planned = sum((law.sent_bytes for law in systems), Fraction(0))
    named = sum(
        call.share.moved.sent_bytes for call in calls if call.standing is CallStanding.OVERHEAD
    )
    stray = wire.trace + wire.algorithm - planned - (named - _hooked(first))
    framing, unexplained, under_way = wire.framing, wire.unexplained, wire.under_way
    if step.wire_by_call:  # calls outside of the step are not in its rows
        cells = [row.sent[0] for row in one.rows]
        framings = [cell.framing for cell in cells]
        framing = None if None in framings else sum(filter(None, framings))
        stray = Fraction(sum(cell.unexplained_trace for cell in cells))
        unexplained = None
        if framing is not None:
            unexplained = sum(cell.unexplained_kernel or 0 for cell in cells)
    words = {
        UNEXPLAINED_TRACE: said("causes.trace"),
        FRAMING: said("causes.headers" if backend == Algorithm.NCCL else "causes.framing"),
        UNDER_WAY: said("causes.under_way"),
        UNEXPLAINED_WIRE: said("causes.wire"),
    }
    sizes = (stray, framing, under_way, unexplained)
    found += [
        CauseBytes(cause=name, bytes=Fraction(size), words=why, is_excused=True)
        for (name, why), size in zip(words.items(), sizes, strict=True)
        if size
    ]
    return tuple(found)


def overhead_of(step: RankStep) -> list[CauseBytes]:
    """Calls of the rank without a plan, by cause."""
    sizes: dict[tuple[Cause, str], int] = defaultdict(int)
    counts: dict[tuple[Cause, str], int] = defaultdict(int)
    is_complete = any(plan.is_complete for plan in step.plans)
    for call in step.calls:
        in_step = call.call.phase in STEP_PHASES or not is_complete
        if call.cause in (None, Cause.HOOK) or call.call.op is None or not in_step:
            continue
        words = call.words
        if call.cause in (Cause.NOT_ATTRIBUTED, Cause.SMALL):
            words = said("causes.at_source", words=words, source=call.source)
        sizes[call.cause, words] += call.share.moved.sent_bytes
        counts[call.cause, words] += 1
    order = list(Cause)
    return [
        CauseBytes(
            cause=cause.value,
            bytes=Fraction(sent),
            words=said(
                "causes.calls" if counts[cause, words] > 1 else "causes.call",
                words=words,
                count=counts[cause, words],
            ),
            is_excused=cause in LEFT_OUT,
        )
        for (cause, words), sent in sorted(sizes.items(), key=lambda one: order.index(one[0][0]))
        if sent
    ]
