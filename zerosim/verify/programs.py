"""The verification of a program that zerosim's engine did not run, but that says what divides it.

Theory is made of the trace's rows `Strategy`; each call is then planned, named beside the law, or
unexplained. Several strategies hold together, each with its own law and group.
Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from zerosim.events import Algorithm
from zerosim.record import Trace, without_update
from zerosim.strategies import Strategy
from zerosim.theory import LEFT_OUT, Cause
from zerosim.theory.programs import Plan, deviations
from zerosim.verify.attribution import RankStep, Standing
from zerosim.verify.measure import algorithm_of, backend_of
from zerosim.verify.outcome import Outcome
from zerosim.verify.program_report import ProgramReport, SystemLaw
from zerosim.verify.program_rows import ledger_rows_of, sources_of
from zerosim.verify.program_steps import ProgramStep, Steps
from zerosim.verify.program_verdicts import (
    attributed_verdict,
    bubble_verdicts,
    headline,
    law_verdicts,
    planned_verdict,
    wires_verdict,
)
from zerosim.verify.report import CauseBytes
from zerosim.verify.verdicts import (
    FRAMING,
    UNDER_WAY,
    UNEXPLAINED_TRACE,
    UNEXPLAINED_WIRE,
    conservation_verdict,
    early_notes,
    matching_verdict,
)

_UNSAID = frozenset({Cause.SEGMENT_ROUNDING, Cause.UNEQUAL_PARTS, Cause.OUTSIDE})
"""Left out of a headline: a rank's part beside the mean, and what is not in the step."""


def verify_program(
    trace: Trace,
    strategies: Mapping[int, Sequence[Strategy]],
    complete: Sequence[int],
    shown: int,
) -> ProgramReport:
    """Hold the three ledgers of a program against each other.

    Args:
        strategies: by rank: see `strategies_of`.
        complete: the iterations that all ranks finished.
        shown: the one whose ledgers to show.
    """
    algorithm = Algorithm.GLOO if algorithm_of(trace) is Algorithm.GLOO else Algorithm.RING
    maker = Steps(trace, strategies)
    steps = list(maker.all_of(complete))
    step = next(step for step in steps if step.iteration == shown)
    first = step.ranks[0]
    beside = _beside(first)
    of_one = beside if len(first.plans) == 1 else []
    systems = tuple(
        replace(
            _law_of(plan, first, first.carriers.get(place, algorithm), of_one),
            formulas=_formulas(plan, step),
        )
        for place, plan in enumerate(first.plans)
    )
    causes = _causes(step, systems, beside)
    verdicts = (
        *law_verdicts(steps, systems),
        planned_verdict(steps),
        attributed_verdict(steps),
        wires_verdict(steps),
        *bubble_verdicts(trace, first.plans, shown),
        conservation_verdict(trace),
        matching_verdict(trace),
    )
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    psi = [plan for plan in first.plans if plan.num_parameters]
    is_one = len(psi) == 1 and len(first.plans) == 1 and len(psi[0].ranks) == len(step.ranks)
    num_parameters = psi[0].num_parameters if is_one else 0
    return ProgramReport(
        folder=str(trace.folder),
        headline=headline(systems, beside, verdicts),
        holds=_holds(answers, first.plans),
        stage=None,
        law=" + ".join(f"{law.formula} ({law.law_name})" for law in systems),
        dtype="",
        algorithm=algorithm.value if algorithm is Algorithm.GLOO else backend_of(trace),
        backend=backend_of(trace),
        num_ranks=trace.manifest.num_ranks,
        num_parameters=num_parameters,
        element_bytes=psi[0].scale.unit_bytes // num_parameters if num_parameters else 0,
        accumulate=step.num_micro_steps,
        iteration=shown,
        iterations=tuple(complete),
        law_bytes=sum((law.law_bytes for law in systems), Fraction(0)) if systems else None,
        rows=ledger_rows_of(step),
        causes=causes,
        outside_bytes=tuple(wire.unexplained or 0 for wire in step.wires),
        verdicts=verdicts,
        notes=_notes(trace, step),
        systems=systems,
        sources=sources_of(step),
        wires=step.wires,
        wires_received=step.wires_received,
    )


def _holds(answers: Sequence[bool], plans: Sequence[Plan]) -> bool | None:
    """Whether every byte has a name; None if nothing is planned, hence nothing predicted."""
    if not all(answers):
        return False
    return True if any(not plan.is_likeness for plan in plans) else None


def _law_of(
    plan: Plan, step: RankStep, algorithm: Algorithm, beside: Sequence[CauseBytes]
) -> SystemLaw:
    """One strategy's law.

    Args:
        beside: what nobody planned, where this plan is the only one.
    """
    hooked = _hooked(step) if plan.left_to else 0
    causes = tuple(
        CauseBytes(
            cause=deviation.cause.value,
            bytes=deviation.bytes,
            words=deviation.words,
            is_excused=deviation.cause in LEFT_OUT,
        )
        for deviation in deviations(plan, step.rank, algorithm)
    )
    if hooked:
        who = next(iter(plan.left_to.values()))
        words = f"{who} sends: {plan.scale.in_units(hooked)}"
        hook = CauseBytes(
            cause=Cause.HOOK.value, bytes=Fraction(hooked), words=words, is_excused=False
        )
        causes = (*causes, hook)
    told = [cause for cause in (*causes, *beside) if cause.outcome is Outcome.EXPLAINED]
    if plan.is_likeness:  # what was called, whoever carried it out and whatever is beside it
        told = [cause for cause in causes if cause.cause == Cause.UNLIKE]
    beyond = sum((cause.bytes for cause in told), Fraction(0))
    sent = plan.law.sent_bytes + sum((cause.bytes for cause in causes), Fraction(0))
    return SystemLaw(
        system=plan.title,
        name=plan.name,
        ranks=plan.ranks,
        law_name=plan.law_name,
        formula=plan.formula,
        formulas=(plan.formula,),
        words=plan.law.words,
        source=plan.law.source,
        unit=plan.scale.unit,
        unit_bytes=plan.scale.unit_bytes,
        payloads=plan.law.payloads,
        law_bytes=plan.law.sent_bytes,
        sent_bytes=sent,
        amount=plan.scale.amount(plan.law.sent_bytes + beyond),
        why=tuple(_why(plan, causes, beside)),
        overheads=tuple(_overheads(plan, (*causes, *beside))),
        causes=causes,
        is_likeness=plan.is_likeness,
        is_far=plan.is_far,
    )


def _why(plan: Plan, causes: Sequence[CauseBytes], beside: Sequence[CauseBytes]) -> Iterator[str]:
    """What makes a step send something else than the law says."""
    for cause in causes:
        if cause.outcome is Outcome.EXPLAINED and cause.cause != Cause.UNLIKE:
            yield cause.words
    for cause in beside:
        if cause.outcome is Outcome.EXPLAINED and not plan.is_likeness:
            yield f"{cause.words}: {plan.scale.in_units(cause.bytes)}"


def _overheads(plan: Plan, causes: Sequence[CauseBytes]) -> Iterator[str]:
    """What the law leaves out, where it is so much that two digits of the law's unit show it."""
    sizes: dict[str, Fraction] = defaultdict(Fraction)
    for cause in causes:
        if cause.outcome is Outcome.AS_PREDICTED and cause.cause not in _UNSAID:
            sizes[cause.cause] += cause.bytes
    for name, size in sizes.items():
        if text := plan.scale.in_digits(size):
            yield f"{text} for {name}"


def _formulas(plan: Plan, step: ProgramStep) -> tuple[str, ...]:
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
    """What a communication hook sends, which no theory knows: as it was called."""
    return sum(call.cost.sent_bytes for call in step.calls if call.cause is Cause.HOOK)


def _causes(
    step: ProgramStep, systems: Sequence[SystemLaw], beside: Sequence[CauseBytes]
) -> tuple[CauseBytes, ...]:
    """From all laws together to the wire, for the first rank."""
    found = [cause for law in systems for cause in law.causes]
    first, wire = step.ranks[0], step.wires[0]
    found += beside
    planned = sum((law.sent_bytes for law in systems), Fraction(0))
    named = sum(c.cost.sent_bytes for c in first.calls if c.standing is Standing.BESIDE)
    stray = wire.trace + wire.algorithm - planned - (named - _hooked(first))
    if stray:
        found.append(
            CauseBytes(
                cause=UNEXPLAINED_TRACE,
                bytes=stray,
                words="the trace differs from what is planned and named",
                is_excused=True,
            )
        )
    if wire.framing:
        words = "48 B for each header, send-ready and receive-ready of a message"
        found.append(
            CauseBytes(cause=FRAMING, bytes=Fraction(wire.framing), words=words, is_excused=True)
        )
    if wire.under_way:
        words = "of calls that were under way when an iteration ended: what came late, less what "
        words += "is left"
        found.append(
            CauseBytes(
                cause=UNDER_WAY, bytes=Fraction(wire.under_way), words=words, is_excused=True
            )
        )
    if wire.unexplained:
        found.append(
            CauseBytes(
                cause=UNEXPLAINED_WIRE,
                bytes=Fraction(wire.unexplained),
                words="the wire differs from the trace",
                is_excused=True,
            )
        )
    return tuple(found)


def _beside(step: RankStep) -> list[CauseBytes]:
    sizes: dict[tuple[Cause, str], int] = defaultdict(int)
    counts: dict[tuple[Cause, str], int] = defaultdict(int)
    for call in step.calls:
        if call.cause is not None and call.cause is not Cause.HOOK:
            where = f" ({call.source})" if call.cause is Cause.NOT_ATTRIBUTED else ""
            sizes[call.cause, call.words + where] += call.cost.sent_bytes
            counts[call.cause, call.words + where] += 1
    order = list(Cause)
    return [
        CauseBytes(
            cause=cause.value,
            bytes=Fraction(sent),
            words=f"{words}, {counts[cause, words]} call{'s' * (counts[cause, words] > 1)}",
            is_excused=cause in LEFT_OUT,
        )
        for (cause, words), sent in sorted(sizes.items(), key=lambda one: order.index(one[0][0]))
        if sent
    ]


def _notes(trace: Trace, step: ProgramStep) -> tuple[str, ...]:
    notes = [
        *trace.warnings,
        *early_notes(trace),
        *(words for rank in step.ranks for words in rank.unknown),
    ]
    notes += [
        f"rank {rank.rank} failed: {rank.failure.message}"
        for rank in trace.ranks
        if rank.failure is not None
    ]
    notes += [
        f"iteration {iteration} ends without an update: its gradients were thrown away"
        for iteration in without_update(trace)
    ]
    return tuple(dict.fromkeys(notes))
