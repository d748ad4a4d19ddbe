"""The verification of a trace's memory: model states, peaks, and what is allowed in between.

Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from zerosim.analysis.memory import Timeline, disagreement, timeline
from zerosim.config import EngineConfig
from zerosim.errors import TraceError
from zerosim.memory import MODEL_STATES, Role
from zerosim.quantities import format_bytes, format_decimal, format_exact_bytes
from zerosim.record import Trace, iterations
from zerosim.theory import UnitSize
from zerosim.verify.ledgers import config_of, is_engine_trace
from zerosim.verify.memory_report import MemoryReport, RankPeak, RoleRow
from zerosim.verify.peaks import rank_peak, when
from zerosim.verify.report import Verdict
from zerosim.verify.residency import gathered_verdict, gradients_verdict
from zerosim.verify.states import (
    Plan,
    StateCheck,
    check_states,
    state_causes,
    states_verdict,
    totals,
)

OTHER_GOAL = Fraction(2, 100)
"""Of the peak: what no role explains should be less on a model of some size."""
AGREEMENT = Fraction(2, 100)
"""Of the peak: how far roles and allocator may be apart at any event."""
_SMALL_BYTES = 1_000_000
"""Of a small model, this far: activations on their way from one unit to the next have no role."""


def verify_memory(trace: Trace, iteration: int | None = None) -> MemoryReport:
    """Hold a trace's memory against the laws.

    Args:
        iteration: whose model states to show; the last complete one by default. The verdicts
            always cover all complete iterations.

    Returns:
        The report; of a program that zerosim's engine did not run, without a law. A trace that
        was cut short is judged as far as all its ranks came.

    Raises:
        TraceError: nothing about memory was recorded, the iteration asked for is not complete, or
            the engine's configuration is no use.
    """
    lines = timelines(trace)
    complete = iterations(trace)
    if iteration is not None and iteration not in complete:
        known = f"expected one of {complete[0]} to {complete[-1]}" if complete else "none is"
        raise TraceError(f"iteration {iteration} is not complete in {trace.folder}: {known}")
    shown = iteration if iteration is not None else max(complete, default=None)
    if not is_engine_trace(trace):
        return _without_law(trace, lines, shown, complete)
    config = config_of(trace)
    plan = plan_of(trace, config)
    checks = check_states(plan, lines, complete)
    verdicts = [states_verdict(plan, checks)] if checks else []
    if config.stage >= 2:
        verdicts.append(gradients_verdict(trace, plan, lines))
    if config.stage == 3:
        verdicts.append(gathered_verdict(trace, plan, lines, config.prefetch))
    peaks = tuple(rank_peak(line, plan, accumulate=config.accumulate) for line in lines.values())
    verdicts += [other_verdict(peaks), allocated_verdict(lines, is_engine=True)]
    of_shown = [check for check in checks if check.iteration == shown]
    return MemoryReport(
        folder=str(trace.folder),
        headline=_headline(plan, verdicts, is_complete=trace.complete),
        holds=_all_hold(verdicts),
        stage=config.stage,
        law=plan.law,
        dtype=config.dtype.value,
        num_ranks=plan.num_ranks,
        num_parameters=plan.num_parameters,
        element_bytes=config.dtype.element_bytes,
        ranks=tuple(lines),
        iteration=shown,
        iterations=complete,
        law_bytes=sum((law.bytes for law in plan.role_laws()), Fraction()),
        rows=_rows(plan, of_shown),
        causes=state_causes(plan, of_shown[0]) if of_shown else (),
        peaks=peaks,
        verdicts=tuple(verdicts),
        notes=_notes(trace, lines, complete),
    )


def timelines(trace: Trace) -> dict[int, Timeline]:
    """The memory over time of each rank that recorded any.

    Raises:
        TraceError: none did.
    """
    lines = {rank.rank: timeline(rank) for rank in trace.ranks if rank.memory_samples}
    if not lines:
        raise TraceError(
            f"{trace.folder} was recorded without memory: record it again without --no-memory"
        )
    return lines


def plan_of(trace: Trace, config: EngineConfig) -> Plan:
    """What decides the model states of a trace."""
    manifest = trace.manifest
    skipped = {m.iteration for m in trace.ranks[0].metrics if m.name == "overflow"}
    return Plan(
        stage=config.stage,
        num_ranks=manifest.num_ranks,
        units=tuple(UnitSize(unit.name, unit.elements, unit.trainable) for unit in manifest.units),
        dtype=config.dtype,
        skipped=frozenset(skipped),
    )


def other_verdict(peaks: tuple[RankPeak, ...]) -> Verdict:
    """How much of the peak no role explains; small models have more, so that refutes nothing."""
    title = f"What no role explains is under {format_decimal(100 * OTHER_GOAL, 0)} % of the peak"
    known = [
        (Fraction(abs(top.other_bytes), top.bytes), top.other_bytes, top)
        for top in peaks
        if top.other_bytes is not None and top.bytes
    ]
    if not known:
        return _not_measured("other", title)
    share, other, worst = max(known, key=lambda found: found[0])
    measured = (
        f"{format_decimal(100 * share, 2)} %: {format_exact_bytes(other)} of "
        f"{format_bytes(worst.bytes)} on rank {worst.rank}"
    )
    holds = True if share < OTHER_GOAL else None
    return Verdict(id="other", title=title, formula="", holds=holds, measured=measured)


def allocated_verdict(lines: dict[int, Timeline], *, is_engine: bool) -> Verdict:
    """At every event the roles have all that the allocator counted, but for a little, and no more.

    More than the allocator counted is false; much less is what a program keeps beside the roles.

    Args:
        is_engine: False for a program whose threads may allocate what the record of one of them
            does not hold, so that more proves nothing.
    """
    title = "At every event the roles add up to what PyTorch's allocator says is alive"
    worst: tuple[int, int, int] | None = None
    least = count = 0
    bound = Fraction(_SMALL_BYTES)
    for rank, line in lines.items():
        if (found := disagreement(line)) is None:
            continue
        count += found.num_samples
        least = min(least, found.least_bytes)
        bound = max(bound, AGREEMENT * int(line.alive().max()))
        if worst is None or abs(found.bytes) > abs(worst[0]):
            worst = found.bytes, rank, found.position
    if worst is None:
        return _not_measured("allocated", title)
    size, rank, position = worst
    measured = (
        f"{count:,} samples, the largest difference {format_exact_bytes(size)} on rank {rank} "
        f"{when(lines[rank], position)}"
    )
    holds = True if size <= bound else None
    if least < 0:
        measured += f"; the roles have up to {format_exact_bytes(-least)} too much"
        holds = False if is_engine else None
    return Verdict(
        id="allocated",
        title=title,
        formula=f"within {format_bytes(bound)}: {format_decimal(100 * AGREEMENT, 0)} % of the "
        f"peak, {format_bytes(_SMALL_BYTES)} at least",
        holds=holds,
        measured=measured,
    )


def _not_measured(identity: str, title: str) -> Verdict:
    words = "nothing: the allocator was not asked"
    return Verdict(id=identity, title=title, formula="", holds=None, measured=words)


def _rows(plan: Plan, checks: list[StateCheck]) -> tuple[RoleRow, ...]:
    if not checks:
        return ()
    expected = totals(checks[0].expected)
    measured = [totals(check.measured) for check in checks]
    laws = {law.role: law for law in plan.role_laws()}
    roles = [
        role for role in MODEL_STATES if role in laws or any(found[role] for found in measured)
    ]
    return tuple(
        RoleRow(
            role=role,
            law=laws[role].words if role in laws else "",
            law_bytes=laws[role].bytes if role in laws else Fraction(),
            theory_bytes=expected[role],
            measured_bytes=tuple(found[role] for found in measured),
        )
        for role in roles
    )


def _without_law(
    trace: Trace, lines: dict[int, Timeline], shown: int | None, complete: tuple[int, ...]
) -> MemoryReport:
    """Of a program whose law is not known: its peaks, and what it keeps at them."""
    peaks = tuple(rank_peak(line, None) for line in lines.values())
    verdicts = (other_verdict(peaks), allocated_verdict(lines, is_engine=False))
    found: list[Counter[Role]] = [
        Counter({part.role: part.bytes for part in top.parts}) for top in peaks
    ]
    rows = tuple(
        RoleRow(
            role=role,
            law="",
            law_bytes=None,
            theory_bytes=None,
            measured_bytes=tuple(at_peak[role] for at_peak in found),
        )
        for role in Role
        if any(at_peak[role] for at_peak in found)
    )
    return MemoryReport(
        folder=str(trace.folder),
        headline="No law is known for this program: its memory is shown as it was measured.",
        holds=_all_hold(verdicts),
        stage=None,
        law="",
        dtype="",
        num_ranks=trace.manifest.num_ranks,
        num_parameters=0,
        element_bytes=0,
        ranks=tuple(lines),
        iteration=shown,
        iterations=complete,
        law_bytes=None,
        rows=rows,
        causes=(),
        peaks=peaks,
        verdicts=verdicts,
        notes=_notes(trace, lines, complete),
    )


def _headline(plan: Plan, verdicts: list[Verdict], *, is_complete: bool) -> str:
    """The answer in one sentence."""
    found = {verdict.id: verdict for verdict in verdicts}
    states = found.get("model-states")
    name = f"This run of {plan.name}"
    if states is None:
        return f"{name} finished no iteration on all ranks: only its peaks are shown."
    if states.holds is False:
        return f"{name} does not keep {plan.law} of model states on each rank: {states.measured}."
    if states.holds is None:
        return (
            f"{name} keeps what it should so far; momentum and variance come with the first update."
        )
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    if wrong is not None:
        return f"{name} keeps {plan.law} of model states, but: {wrong.measured}."
    extent = "as the law says" if is_complete else "as the law says, as far as all ranks came"
    return f"{name} keeps {plan.law} of model states on each rank, {extent}."


def _all_hold(verdicts: list[Verdict] | tuple[Verdict, ...]) -> bool | None:
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    return all(answers) if answers else None


def _notes(trace: Trace, lines: dict[int, Timeline], complete: tuple[int, ...]) -> tuple[str, ...]:
    notes = list(trace.warnings)
    if not complete and is_engine_trace(trace):
        notes.append("no iteration is complete on all ranks: no law was held against this trace")
    notes += [
        f"rank {rank.rank} failed: {rank.failure.message}"
        for rank in trace.ranks
        if rank.failure is not None
    ]
    notes += [
        f"rank {rank.rank} recorded no memory" for rank in trace.ranks if rank.rank not in lines
    ]
    if any(not line.is_measured for line in lines.values()):
        notes.append("the allocator was not asked: what no role explains is not measured")
    return tuple(notes)
