"""The claims about a program that zerosim's engine did not run, and the answer in one sentence.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

from zerosim.events import Kind, Phase, Purpose
from zerosim.quantities import format_decimal, format_exact, format_exact_bytes
from zerosim.record import Trace
from zerosim.record.text import name_ranks
from zerosim.theory import LEFT_OUT, Cause
from zerosim.theory.programs import Bubble, Plan, PlannedCall
from zerosim.verify.attribution import Attributed, RankStep, Standing
from zerosim.verify.outcome import Outcome
from zerosim.verify.program_report import SystemLaw
from zerosim.verify.program_steps import ProgramStep
from zerosim.verify.report import CauseBytes, Verdict
from zerosim.verify.verdicts import OF_THE_BACKEND, WIRE_TOLERANCE

UNATTRIBUTED = "attributed"
PLANNED = "planned"


def headline(
    systems: Sequence[SystemLaw], beside: Sequence[CauseBytes], verdicts: Sequence[Verdict]
) -> str:
    """Which law the trace obeys, and if it is not the pure one, why.

    Args:
        beside: what the first rank called and no law speaks of.
    """
    told = [
        cause
        for cause in beside
        if cause.outcome is Outcome.EXPLAINED and cause.cause != Cause.NO_PLAN
    ]
    unplanned = next((one for one in verdicts if one.id == PLANNED and one.holds is None), None)
    if not systems and unplanned is not None and not told:
        return f"{unplanned.measured}."
    if systems:
        answer = " ".join(_sentence(law, _who(law, systems), told) for law in systems)
        if told and (len(systems) > 1 or systems[0].is_likeness):
            answer += f" Beside that it sends {_list_of(told)}."
    elif told:
        answer = f"No law that is known speaks of what this program sends: {_list_of(told)}."
    else:
        answer = "No law is known for this program: its trace and its wire are shown as they are."
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    if wrong is None:
        return answer
    said = wrong.measured.partition(" (and ")[0]
    return f"{answer} But not all of the trace is that: {said}."


def _list_of(causes: Sequence[CauseBytes]) -> str:
    return ", ".join(f"{format_exact_bytes(cause.bytes)} ({cause.words})" for cause in causes)


def _who(law: SystemLaw, systems: Sequence[SystemLaw]) -> str:
    """A system, and of which of its models where it divides several."""
    alike = [other for other in systems if other.system == law.system]
    return f"{law.system} of {law.name}" if len(alike) > 1 else law.system


def _sentence(law: SystemLaw, who: str, told: Sequence[CauseBytes]) -> str:
    sends = " ".join((law.amount, *law.overheads))
    why = "; ".join(law.why)
    if law.is_likeness:
        like = f"like {law.law_name} ({law.formula})"
        if law.is_far:
            like = f"like no law that is known; the nearest is that of {law.law_name} "
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


def law_verdicts(steps: Sequence[ProgramStep], systems: Sequence[SystemLaw]) -> tuple[Verdict, ...]:
    """Each strategy's law: whether every byte beyond it, or less, has a name, on every rank."""
    found = []
    for place, law in enumerate(systems):
        strays = [
            words
            for step in steps
            for rank in step.ranks
            for words in _strays_of(step.iteration, rank, law)
        ]
        native = [one for one in law.causes if one.cause in OF_THE_BACKEND]
        asked = law.sent_bytes - sum((one.bytes for one in native), Fraction(0))
        how = "called, and no plan" if law.is_likeness else "planned and called"
        measured = f"{format_exact_bytes(asked)} {how}"
        parts = [_part(one) for one in law.causes if one not in native]
        if parts:
            measured += f", of it beside the law: {', '.join(parts)}"
        if native:
            measured += f"; beyond that on the wire: {', '.join(map(_part, native))}"
        if strays:
            measured += f"; {_first(strays)}"
        found.append(
            Verdict(
                id=f"law-{place}",
                title=_title(law, _who(law, systems)),
                formula=f"{law.formula} = {format_exact_bytes(law.law_bytes)}",
                holds=None if law.is_likeness else not strays,
                measured=measured,
                differs=any(one.outcome is Outcome.EXPLAINED for one in law.causes),
            )
        )
    return tuple(found)


def _title(law: SystemLaw, who: str) -> str:
    if law.is_likeness:
        return f"A hand-written program has no law of its own: it is most like {law.law_name}"
    return f"{who} sends what the law of {law.law_name} and named causes say"


def _strays_of(iteration: int, step: RankStep, law: SystemLaw) -> Iterator[str]:
    """What one rank's plan of a system promised and its trace does not have."""
    mine = (law.system, law.name)
    places = {place for place, plan in enumerate(step.plans) if (plan.title, plan.name) == mine}
    missing = [call for place, call in step.missing if place in places]
    yield from _groups(iteration, step.rank, missing, "never called, though it is planned: ")


def planned_verdict(steps: Sequence[ProgramStep]) -> Verdict:
    """Each planned call was made, and no other of the purposes that theory plans."""
    problems = [
        words
        for step in steps
        for rank in step.ranks
        for words in (
            *_groups(
                step.iteration,
                rank.rank,
                [call for _, call in rank.missing],
                "never called, though it is planned: ",
            ),
            *_unplanned(step.iteration, rank),
            *rank.unknown,
        )
    ]
    calls = [call for step in steps for rank in step.ranks for call in rank.calls]
    no_plan = next((rank.unplanned for step in steps for rank in step.ranks), "")
    counts = Counter(call.standing for call in calls)
    planned, taken = counts[Standing.PLANNED], counts[Standing.TAKEN]
    measured = f"{planned:,} calls planned"
    if taken:
        measured += f", {taken:,} taken as they are"
    named = sum(call.cause is not None and call.cause not in LEFT_OUT for call in calls)
    measured += f", {counts[Standing.BESIDE]:,} named beside the law"
    if named:
        measured += f", {named:,} of these asked for by no plan"
    holds = True if planned or not (taken or named) else None
    return Verdict(
        id=PLANNED,
        title="Every call that theory plans was made, and no other without a name",
        formula="",
        holds=False if problems else (None if no_plan else holds),
        measured=_first(problems) if problems else no_plan or measured,
        differs=named > 0,
    )


def _unplanned(iteration: int, step: RankStep) -> Iterator[str]:
    by_source: dict[str, list[PlannedCall]] = {}
    for one in step.calls:
        if one.standing is Standing.UNEXPLAINED:
            by_source.setdefault(one.source, []).append(one.call)
    for source, calls in by_source.items():
        where = f" at {source}" if source else ""
        for words in _groups(iteration, step.rank, calls, "called, though nobody planned it: "):
            yield f"{words}{where}"


def _groups(iteration: int, rank: int, calls: Sequence[PlannedCall], what: str) -> Iterator[str]:
    """Calls that are alike, in one line."""
    counts = Counter((c.phase, c.purpose, c.op, c.elements * c.element_bytes) for c in calls)
    for (phase, purpose, op, size), count in counts.items():
        yield (
            f"rank {rank}, iteration {iteration}: {what}{count} {op} of "
            f"{format_exact_bytes(size)} in {phase} ({purpose})"
        )


def attributed_verdict(steps: Sequence[ProgramStep]) -> Verdict:
    """What nobody said the purpose of, by source line: shown, and neither proved nor refuted."""
    title = "Every call has a purpose"
    strays: dict[str, list[Attributed]] = {}
    for step in steps:
        for rank in step.ranks:
            for call in rank.calls:
                if call.call.purpose is Purpose.UNLABELLED:
                    strays.setdefault(call.source or "an unknown line", []).append(call)
    if not strays:
        return Verdict(id=UNATTRIBUTED, title=title, formula="", holds=True, measured="all have")
    parts = [
        f"{len(calls)} {calls[0].call.op} at {source}, "
        f"{format_exact_bytes(sum(one.bound.sent_bytes for one in calls))} sent"
        for source, calls in strays.items()
    ]
    measured = _first(parts)
    return Verdict(id=UNATTRIBUTED, title=title, formula="", holds=None, measured=measured)


def wires_verdict(steps: Sequence[ProgramStep]) -> Verdict:
    """What the kernel counted in each iteration of each rank, against trace and framing."""
    title = "The kernel sent what the trace says, with its framing"
    wires = [wire for step in steps for wire in step.wires]
    if any(wire.unexplained is None for wire in wires):
        words = "the wire was not measured, or the backend's framing is not known"
        return Verdict(id="wire-is-trace", title=title, formula="", holds=None, measured=words)
    total = sum(wire.wire or 0 for wire in wires)
    stray = sum(abs(wire.unexplained or 0) for wire in wires)
    measured = (
        f"{format_exact_bytes(stray)} unexplained of {format_exact_bytes(total)}, over "
        f"{len(steps)} iteration{'s' * (len(steps) > 1)} and {len(steps[0].wires)} ranks"
    )
    holds = stray <= WIRE_TOLERANCE * total
    return Verdict(id="wire-is-trace", title=title, formula="", holds=holds, measured=measured)


def bubble_verdicts(trace: Trace, plans: Sequence[Plan], iteration: int) -> Iterator[Verdict]:
    """What a pipeline's bubble should be, beside the idle time of this run: it proves nothing."""
    for plan in plans:
        if plan.bubble is not None:
            idle = _idle(trace, plan.ranks, iteration)
            measured = "computations were not recorded"
            if idle is not None:
                measured = (
                    f"a rank computes nothing for {format_decimal(100 * idle, 1)} % of the total "
                    f"of iteration {iteration}, waiting and everything else included"
                )
            yield Verdict(
                id="bubble",
                title="A pipeline's ranks stand idle while it fills and drains",
                formula=_formula(plan.bubble),
                holds=None,
                measured=measured,
            )


def _formula(bubble: Bubble) -> str:
    p, m, v = bubble.num_ranks, bubble.num_microbatches, bubble.stages_a_rank
    work = f"({v} x {m})" if v > 1 else f"{m}"
    return (
        f"(p-1)/{'(v m)' if v > 1 else 'm'} = {p - 1}/{work} = "
        f"{format_decimal(100 * bubble.of_ideal, 1)} % of the ideal time, "
        f"{format_decimal(100 * bubble.of_total, 1)} % of the total"
    )


def _idle(trace: Trace, ranks: Sequence[int], iteration: int) -> Fraction | None:
    """Which part of the time from the first computation to the last a rank does not compute."""
    spans = {
        rank.rank: sorted(
            (event.start_ns, event.end_ns)
            for event in rank.events
            if event.kind is Kind.COMPUTE
            and event.iteration == iteration
            and event.phase in (Phase.FORWARD, Phase.BACKWARD)
            and event.start_ns is not None
            and event.end_ns is not None
        )
        for rank in trace.ranks
        if rank.rank in ranks
    }
    if not spans or not all(spans.values()):
        return None
    if len({rank.header.host for rank in trace.ranks}) > 1:
        return None
    begin = min(start for mine in spans.values() for start, _ in mine)
    total = max(end for mine in spans.values() for _, end in mine) - begin
    busy = sum(_covered(mine) for mine in spans.values())
    return 1 - Fraction(busy, total * len(spans)) if total else None


def _covered(spans: Sequence[tuple[int, int]]) -> int:
    covered = until = 0
    for start, end in spans:
        covered += max(0, end - max(start, until))
        until = max(until, end)
    return covered


def _part(cause: CauseBytes) -> str:
    return f"{cause.cause} {'+' if cause.bytes > 0 else ''}{format_exact(cause.bytes)} B"


def _first(lines: Sequence[str]) -> str:
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return f"{lines[0]}{more}"
