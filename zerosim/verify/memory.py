"""The verification of a trace's memory: model states, peaks, and what is allowed in between.

Imports zerosim's L0, record, theory, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from zerosim.analysis.memory import (
    Bytes,
    Timeline,
    in_training,
    tiers_of,
    timeline,
    updates_begin,
)
from zerosim.errors import TraceError
from zerosim.memory import MODEL_STATES, OUTSIDE_THE_MODEL, Role
from zerosim.quantities import format_exact_bytes
from zerosim.record import Trace, ended_early, iterations
from zerosim.tiers import Tier
from zerosim.verify.configured import config_of
from zerosim.verify.device_places import figures
from zerosim.verify.memory_plan import PLACES, MemoryPlan, plan_of
from zerosim.verify.memory_report import MemoryReport, RankPeak, RoleRow
from zerosim.verify.memory_verdicts import allocated_verdict, other_verdict
from zerosim.verify.peaks import rank_peak
from zerosim.verify.program_memory import ProgramPlan, program_plan
from zerosim.verify.report import CauseBytes, Verdict
from zerosim.verify.residency import gathered_verdict, gradients_verdict
from zerosim.verify.states import check_states, state_causes, state_rows, states_verdict
from zerosim.verify.temporary import temporary_verdicts
from zerosim.verify.tier_report import tier_report


def verify_memory(trace: Trace, iteration: int | None = None) -> MemoryReport:
    """Hold a trace's memory against the laws.

    Args:
        iteration: whose model states and peaks to show; by default the model states of the last
            complete one and the peaks of all. The verdicts always cover all complete iterations.

    Returns:
        The report; of a program that zerosim's engine did not run by the law of its system, if
        that is known. A trace that was cut short is judged as far as all its ranks came.

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
    config = config_of(trace)
    if config is None:
        return _of_program(trace, lines, iteration, complete)
    plan = plan_of(trace, config)
    tiers = _tiers(trace, plan)
    place = PLACES[Tier.DEVICE] if tiers else ""
    checks = check_states(plan, lines, complete, place)
    verdicts = [states_verdict(plan, checks)] if checks else []
    reports = []
    by_tier = {Tier.DEVICE: lines} | {tier: timelines(trace, tier) for tier in tiers}
    for tier in tiers:
        beyond = by_tier[tier]
        found = check_states(plan, beyond, complete, PLACES[tier])
        if found and (tier in plan.tiers or any(check.measured for check in found)):
            verdicts.append(states_verdict(plan, found, tier))
        reports.append(tier_report(plan, beyond, [c for c in found if c.iteration == shown]))
    if config.stage >= 2:
        verdicts.append(gradients_verdict(trace, plan, lines))
    if config.stage == 3:
        verdicts.append(gathered_verdict(trace, plan, lines, config.prefetch))
    verdicts += temporary_verdicts(trace, plan, config, by_tier)
    peaks = tuple(
        rank_peak(
            line,
            plan,
            accumulate=config.accumulate,
            place=place,
            positions=_within(line, iteration),
        )
        for line in lines.values()
    )
    verdicts += [other_verdict(lines), allocated_verdict(lines, is_engine=True)]
    if not complete:
        verdicts = [_unproved(verdict) for verdict in verdicts]
    of_shown = [check for check in checks if check.iteration == shown]
    return MemoryReport(
        folder=str(trace.folder),
        headline=_headline(plan, verdicts, is_complete=trace.complete),
        holds=_all_hold(verdicts),
        stage=config.stage,
        law=plan.law,
        dtype=config.dtype.value,
        num_ranks=trace.manifest.num_ranks,
        num_parameters=plan.num_parameters,
        element_bytes=config.dtype.element_bytes,
        ranks=tuple(lines),
        iteration=shown,
        iterations=complete,
        law_bytes=sum((law.bytes for law in plan.role_laws()), Fraction()),
        rows=state_rows(plan, of_shown),
        causes=state_causes(plan, of_shown[0]) if of_shown else (),
        peaks=peaks,
        verdicts=tuple(verdicts),
        notes=_notes(trace, lines, complete),
        tiers=tuple(reports),
        addresses=figures(trace),
    )


def _tiers(trace: Trace, plan: MemoryPlan) -> list[Tier]:
    """The tiers beyond the device where something is, or should be."""
    found = {tier for rank in trace.ranks for tier in tiers_of(rank)} | set(plan.tiers)
    return [tier for tier in Tier if tier in found and tier is not Tier.DEVICE]


def _within(line: Timeline, iteration: int | None) -> Bytes:
    """The samples whose peak is told: of the iteration asked for, else of all."""
    return in_training(line, None if iteration is None else [iteration])


def timelines(trace: Trace, tier: Tier = Tier.DEVICE) -> dict[int, Timeline]:
    """The memory over time of each rank that recorded any, in one tier.

    Raises:
        TraceError: none did.
    """
    lines = {rank.rank: timeline(rank, tier) for rank in trace.ranks if rank.memory_samples}
    if not lines:
        raise TraceError(
            f"{trace.folder} was recorded without memory: record it again without --no-memory"
        )
    return lines


def _of_program(
    trace: Trace, lines: dict[int, Timeline], iteration: int | None, complete: tuple[int, ...]
) -> MemoryReport:
    """Of a program that zerosim's engine did not run: its law if one is known, and its peaks."""
    shown = iteration if iteration is not None else max(complete, default=None)
    peaks = tuple(
        rank_peak(line, None, positions=_within(line, iteration)) for line in lines.values()
    )
    plan = program_plan(trace, lines, complete)
    checks = [] if plan is None else check_states(plan, lines, complete)
    verdicts = [other_verdict(lines), allocated_verdict(lines, is_engine=False)]
    if not complete and ended_early(trace):
        verdicts = [_unproved(verdict) for verdict in verdicts]
    notes = list(_notes(trace, lines, complete))
    causes: tuple[CauseBytes, ...] = ()
    headline = "No law is known for this program: its memory is shown as it was measured."
    if plan is None or not checks:
        rows = _rows_at(peaks)
    else:
        verdicts.insert(0, states_verdict(plan, checks))
        headline = _headline(plan, verdicts, is_complete=trace.complete)
        of_shown = [check for check in checks if check.iteration == shown]
        rows, causes = state_rows(plan, of_shown), state_causes(plan, of_shown[0])
        if plan.unknown:
            notes.append(plan.unknown)
        notes += _outside_the_model(lines, shown)
    is_known = plan is not None and bool(checks)
    return MemoryReport(
        folder=str(trace.folder),
        headline=headline,
        holds=_all_hold(verdicts),
        stage=None,
        law=plan.law_of(Tier.DEVICE) if plan is not None and is_known else "",
        dtype="",
        num_ranks=trace.manifest.num_ranks,
        num_parameters=plan.num_parameters if plan is not None and is_known else 0,
        element_bytes=0,
        ranks=tuple(lines),
        iteration=shown,
        iterations=complete,
        law_bytes=sum((law.bytes for law in plan.role_laws()), Fraction())
        if plan is not None and is_known
        else None,
        rows=rows,
        causes=causes,
        peaks=peaks,
        verdicts=tuple(verdicts),
        notes=tuple(notes),
    )


def _outside_the_model(lines: dict[int, Timeline], iteration: int | None) -> list[str]:
    """What the law is not of: modules that a model calls, and does not have as its own."""
    found = []
    for rank, line in lines.items():
        state = line.at(updates_begin(line, [iteration or 0])[iteration or 0])
        size = sum(
            bytes_
            for (role, unit), bytes_ in state.items()
            if role in MODEL_STATES and unit == OUTSIDE_THE_MODEL
        )
        if size:
            found.append(
                f"rank {rank} keeps {format_exact_bytes(size)} more for modules that its model "
                "calls but does not contain: the law does not count them"
            )
    return found


def _rows_at(peaks: tuple[RankPeak, ...]) -> tuple[RoleRow, ...]:
    """What each role has at the peaks, where no law is known."""
    found: list[Counter[Role]] = [
        Counter({part.role: part.bytes for part in top.parts}) for top in peaks
    ]
    return tuple(
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


def _headline(plan: MemoryPlan | ProgramPlan, verdicts: list[Verdict], *, is_complete: bool) -> str:
    """The answer in one sentence."""
    states = [verdict for verdict in verdicts if verdict.id.startswith("model-states")]
    name = f"This run of {plan.name}"
    if not states:
        return f"{name} finished no iteration on all ranks: only its peaks are shown."
    wrong = next((verdict for verdict in states if verdict.holds is False), None)
    if wrong is not None:
        return f"{name} does not keep {plan.keeps}: {wrong.measured}."
    if any(verdict.holds is None for verdict in states):
        return (
            f"{name} keeps what it should so far; momentum and variance come with the first update."
        )
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    if wrong is not None:
        return f"{name} keeps {plan.keeps}, but: {wrong.measured}."
    extent = "as the law says" if is_complete else "as the law says, as far as all ranks got"
    return f"{name} keeps {plan.keeps}, {extent}."


def _unproved(verdict: Verdict) -> Verdict:
    """A verdict over no finished iteration: what is wrong stays so, and nothing is proved."""
    if not verdict.holds:
        return verdict
    words = f"{verdict.measured}; not checked, since no iteration was finished on all ranks"
    return replace(verdict, holds=None, measured=words)


def _all_hold(verdicts: list[Verdict] | tuple[Verdict, ...]) -> bool | None:
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    return all(answers) if answers else None


def _notes(trace: Trace, lines: dict[int, Timeline], complete: tuple[int, ...]) -> tuple[str, ...]:
    notes = list(trace.warnings)
    if not complete and config_of(trace) is not None:
        notes.append("no iteration is complete on all ranks: this trace was checked against no law")
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
