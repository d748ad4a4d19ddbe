"""The verification of a trace's memory: model states, peaks, and temporary memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from zerosim.analysis.addresses import address_table
from zerosim.analysis.memory import (
    Bytes,
    Timeline,
    in_training,
    tiers_of,
    timeline,
    updates_begin,
)
from zerosim.base.errors import TraceError
from zerosim.base.quantities import PSI, format_decimal, format_exact_bytes
from zerosim.base.tiers import Tier
from zerosim.record import Trace, ended_early, iterations, way_to_memory
from zerosim.record.text import name_iterations
from zerosim.schema.events import Phase
from zerosim.schema.manifest import Source
from zerosim.schema.memory import MODEL_STATES, OUTSIDE_THE_MODEL, Moment, Role
from zerosim.verify.memory_plan import MemoryPlan, plan_of
from zerosim.verify.memory_report import AddressFigures, MemoryReport, RankPeak, RoleRow
from zerosim.verify.memory_verdicts import allocated_verdict, other_verdict, without_role
from zerosim.verify.peaks import rank_peak
from zerosim.verify.report import Verdict
from zerosim.verify.states import check_states, state_causes, state_rows, states_verdict
from zerosim.verify.temporary import temporary_verdicts
from zerosim.verify.tier_report import tier_report
from zerosim.verify.wording import said


def verify_memory(trace: Trace, iteration: int | None = None) -> MemoryReport:
    """Compare a trace's memory with the law of its system.

    Args:
        iteration: the one to show; by default the model states of the last complete one and the
            peaks of all. The verdicts always cover all complete iterations.

    Returns:
        The report; only peaks and the allocator's counts if no law is known. An incomplete trace is
        checked up to the last step that all ranks reached.

    Raises:
        TraceError: memory was not recorded, the requested iteration is not complete, or the
            engine's configuration is invalid.
    """
    lines = timelines(trace)
    complete = iterations(trace)
    if iteration is not None and iteration not in complete:
        known = f"expected one of {name_iterations(complete)}" if complete else "none is"
        raise TraceError(f"iteration {iteration} is not complete in {trace.folder}: {known}")
    shown = iteration if iteration is not None else max(complete, default=None)
    plan = plan_of(trace, lines, complete)
    tiers = [] if plan is None else _tiers(trace, plan)
    place = Tier.DEVICE.place if tiers else ""
    checks = [] if plan is None else check_states(plan, lines, complete, place)
    workload = None if plan is None else plan.workload
    if workload is None and not checks:
        plan = None  # nothing in it could be compared with the trace
    verdicts, reports = [], []
    if plan is not None and checks:
        verdicts.append(states_verdict(plan, checks))
    by_tier = {Tier.DEVICE: lines} | {tier: timelines(trace, tier) for tier in tiers}
    for tier in tiers:
        assert plan is not None, "tiers beyond the device are those of a plan"
        found = check_states(plan, by_tier[tier], complete, tier.place)
        if found and (tier in plan.first.tiers or any(check.measured for check in found)):
            verdicts.append(states_verdict(plan, found, tier))
        of_tier = [check for check in found if check.iteration == shown]
        reports.append(tier_report(plan, by_tier[tier], of_tier))
    if workload is not None:
        verdicts += temporary_verdicts(trace, workload, by_tier)
    is_engine = workload is not None
    verdicts += [other_verdict(lines), allocated_verdict(lines, is_engine=is_engine)]
    if not complete and (is_engine or ended_early(trace)):
        verdicts = [_unproved(verdict) for verdict in verdicts]
    peaks = tuple(
        rank_peak(line, plan, place=place, positions=_within(line, iteration))
        for line in lines.values()
    )
    of_shown = [check for check in checks if check.iteration == shown]
    config = None if workload is None else workload.config
    law = None if plan is None else plan.of(shown)
    return MemoryReport(
        folder=str(trace.folder),
        headline=_headline(plan, verdicts, lines, is_complete=trace.complete),
        holds=_all_hold(verdicts),
        stage=None if config is None else config.stage,
        law="" if law is None else law.law(),
        dtype="" if config is None else config.dtype.value,
        num_ranks=trace.manifest.num_ranks,
        num_parameters=0 if law is None else law.num_parameters,
        element_bytes=0 if config is None else config.dtype.element_bytes,
        ranks=tuple(lines),
        iteration=shown,
        iterations=complete,
        law_bytes=None if law is None else law.law_bytes(),
        rows=_rows_at(peaks) if plan is None else state_rows(plan, of_shown),
        causes=state_causes(plan, of_shown[0]) if plan is not None and of_shown else (),
        peaks=peaks,
        verdicts=tuple(verdicts),
        notes=_notes(trace, plan, lines, complete, shown),
        tiers=tuple(reports),
        addresses=_addresses(trace),
        is_dry=trace.manifest.source is Source.SIMULATED,
    )


def _tiers(trace: Trace, plan: MemoryPlan) -> list[Tier]:
    """The tiers off the device that contain something, or should."""
    found = {tier for rank in trace.ranks for tier in tiers_of(rank)} | set(plan.first.tiers)
    return [tier for tier in Tier if tier in found and tier is not Tier.DEVICE]


def _within(line: Timeline, iteration: int | None) -> Bytes:
    """The samples for the peak: of the requested iteration, else of all."""
    return in_training(line, None if iteration is None else [iteration])


def timelines(trace: Trace, tier: Tier = Tier.DEVICE) -> dict[int, Timeline]:
    """The memory over time of each rank with samples, in one tier.

    Raises:
        TraceError: no rank has samples.
    """
    lines = {rank.rank: timeline(rank, tier) for rank in trace.ranks if rank.memory_samples}
    if not lines:
        raise TraceError(f"{trace.folder} was recorded without memory: {way_to_memory(trace)}")
    return lines


def _outside_the_model(lines: dict[int, Timeline], iteration: int) -> list[str]:
    """What the law does not cover: modules that a model calls but does not own."""
    found = []
    for rank, line in lines.items():
        state = line.at(updates_begin(line, [iteration])[iteration])
        size = sum(
            bytes_
            for (role, unit), bytes_ in state.items()
            if role in MODEL_STATES and unit == OUTSIDE_THE_MODEL
        )
        if size:
            found.append(said("notes.outside", rank=rank, bytes=format_exact_bytes(size)))
    return found


def _rows_at(peaks: tuple[RankPeak, ...]) -> tuple[RoleRow, ...]:
    """Bytes of each role at the peaks, if no law is known."""
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


def _addresses(trace: Trace) -> tuple[AddressFigures, ...]:
    """The fill level of a device with a limit, for every rank that recorded it, by iteration."""
    return tuple(
        AddressFigures(
            rank=rank.rank,
            iteration=row.iteration,
            limit_bytes=row.peak.limit_bytes,
            used_bytes=row.peak.used_bytes,
            free_bytes=row.scattered.free_bytes,
            largest_free_bytes=row.scattered.largest_free_bytes,
            full=row.full is not None,
        )
        for rank in trace.ranks
        for row in address_table(rank)
    )


def _unreduced(plan: MemoryPlan, lines: dict[int, Timeline]) -> tuple[str, int]:
    """The gradients that a program's rank keeps between micro-steps, in Psi and in bytes.

    Empty if they are no more than at the beginning of an update: then the law covers them.
    """
    most = 0
    for line in lines.values() if plan.workload is None else ():
        sizes: dict[bool, int] = {True: 0, False: 0}
        for position, sample in enumerate(line.samples):
            is_between = sample.phase is Phase.FORWARD and sample.micro_step > 0
            if sample.moment is Moment.PHASE and (is_between or sample.phase is Phase.UPDATE):
                size = line.roles_at(position)[Role.GRADIENTS]
                sizes[is_between] = max(sizes[is_between], size)
        if sizes[True] > sizes[False]:
            most = max(most, sizes[True])
    multiple = Fraction(most, plan.first.num_parameters or 1)
    text = f"{multiple}" if multiple.denominator == 1 else format_decimal(multiple, 2)
    return f"{text}{PSI}", most


def _headline(
    plan: MemoryPlan | None,
    verdicts: list[Verdict],
    lines: dict[int, Timeline],
    *,
    is_complete: bool,
) -> str:
    """The answer in one sentence."""
    if plan is None:
        return said("memory.no_law")
    states = [verdict for verdict in verdicts if verdict.id.startswith("model-states")]
    run = {"name": plan.first.name, "keeps": plan.first.keeps}
    if not states:
        return said("memory.unfinished", **run)
    wrong = next((verdict for verdict in states if verdict.holds is False), None)
    if wrong is not None:
        return said("memory.stray", measured=wrong.measured, **run)
    if any(verdict.holds is None for verdict in states):
        return said("memory.so_far", **run)
    wrong = next((verdict for verdict in verdicts if verdict.holds is False), None)
    beside = without_role(lines) if wrong is None else wrong.measured
    if beside:
        return said("memory.but", measured=beside, **run)
    amount, kept = _unreduced(plan, lines)
    key = "as_far" if not is_complete else "as_law_between" if kept else "as_law"
    return said(f"memory.{key}", size=amount, bytes=format_exact_bytes(kept), **run)


def _unproved(verdict: Verdict) -> Verdict:
    """A verdict without a finished iteration: a violation remains, and nothing is proved."""
    if not verdict.holds:
        return verdict
    words = said("memory.unchecked", measured=verdict.measured)
    return replace(verdict, holds=None, measured=words)


def _all_hold(verdicts: list[Verdict] | tuple[Verdict, ...]) -> bool | None:
    answers = [verdict.holds for verdict in verdicts if verdict.holds is not None]
    return all(answers) if answers else None


def _notes(
    trace: Trace,
    plan: MemoryPlan | None,
    lines: dict[int, Timeline],
    complete: tuple[int, ...],
    shown: int | None,
) -> tuple[str, ...]:
    notes = list(trace.warnings)
    if not complete and plan is not None:
        notes.append(said("notes.no_iteration"))
    notes += [
        said("notes.failed", rank=rank.rank, message=rank.failure.message)
        for rank in trace.ranks
        if rank.failure is not None
    ]
    notes += [
        said("notes.no_memory", rank=rank.rank) for rank in trace.ranks if rank.rank not in lines
    ]
    if any(line.roleless and not line.is_measured for line in lines.values()):
        notes.append(said("notes.looked_for"))
    elif any(not line.is_measured for line in lines.values()):
        notes.append(said("notes.no_allocator"))
    if plan is not None and plan.first.unknown:
        notes.append(plan.first.unknown)
    if plan is not None and shown is not None:
        notes += _outside_the_model(lines, shown)
    return tuple(notes)
