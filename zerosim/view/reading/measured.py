"""Traffic, memory and times of one trace, measured for a comparison.

Bytes are of one iteration and exact. Times are medians over iterations, each rank counting equally:
they belong to the machine they were measured on. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from statistics import median

import numpy as np

from zerosim.analysis import GraphReport, report
from zerosim.analysis.graph import EventGraph, build_graph
from zerosim.analysis.memory import (
    Timeline,
    in_training,
    peak,
    updates_begin,
)
from zerosim.analysis.traffic import TracedCall, copies, traced_calls
from zerosim.base.errors import TraceError
from zerosim.base.tiers import Link
from zerosim.record import Trace, iterations, why_early
from zerosim.schema.events import STEP_PHASES, WHOLE, Phase
from zerosim.schema.manifest import BucketLayout, Source
from zerosim.schema.memory import Role
from zerosim.theory.model_states import FP32_BYTES
from zerosim.verify.attribution import RankStep
from zerosim.verify.configured import config_of
from zerosim.verify.memory_check import timelines
from zerosim.verify.memory_plan import plan_of
from zerosim.verify.report import Report
from zerosim.verify.verify import check, report_on
from zerosim.view.reading.side import RankMemoryUse, Side, Times, TrafficReason

_TIMED = 20
"""Number of last iterations whose times are used, for a long run."""


def measurable(trace: Trace) -> tuple[int, ...]:
    """The iterations to measure: those that all ranks finished.

    Raises:
        TraceError: there is none.
    """
    complete = iterations(trace)
    if not complete and trace.complete and config_of(trace) is None:
        complete = (WHOLE,)
    if not complete:
        why = f": {reason}" if (reason := why_early(trace)) else ""
        raise TraceError(
            f"{trace.folder}: no iteration is complete on all {trace.manifest.num_ranks} ranks: "
            f"nothing to compare{why}; zerosim show {trace.folder} prints the recording"
        )
    return complete


def side_of(trace: Trace, name: str, complete: Sequence[int]) -> Side:
    """Measure one trace.

    Args:
        complete: the iterations to measure, which all ranks finished.
    """
    last = complete[-1]
    first = trace.ranks[0]
    [checked] = check(trace, complete[-1:])
    rows = () if checked.step.ranks[0].unknown else checked.rows
    calls = [call for call in traced_calls(trace) if call.event.iteration == last]
    moved: dict[TrafficReason, int] = defaultdict(int)
    for row in rows:
        if row.op is not None and row.calls[0]:
            moved[TrafficReason(row.phase, row.purpose, row.op)] += row.sent[0].trace
    losses = [
        metric.value
        for metric in first.metrics
        if metric.name == "loss"
        and trace.manifest.source is not Source.SIMULATED  # a dry run has no loss
        and (metric.iteration <= last or last == WHOLE)
    ]
    config, stage = trace.manifest.config, trace.manifest.config.get("stage")
    told = report_on(trace, [checked], last)
    lines = timelines(trace) if first.memory_samples else {}
    plan = plan_of(trace, lines, () if last == WHOLE else complete)
    return Side(
        name=name,
        folder=str(trace.folder),
        stage=stage if isinstance(stage, int) else None,
        traffic_law=_traffic_law(told),
        states_law="" if plan is None else plan.law,
        num_ranks=trace.manifest.num_ranks,
        num_parameters=told.num_parameters,
        element_bytes=told.element_bytes if told.systems else FP32_BYTES,
        units=tuple(unit.name for unit in trace.manifest.units),
        settings={**trace.manifest.run, **config, "ranks": trace.manifest.num_ranks},
        iteration=last,
        iterations=tuple(complete),
        incomplete=why_early(trace),
        sent_bytes=dict(sorted(moved.items())),
        unit_bytes=_unit_bytes(trace, checked.step.ranks[0]) if moved else {},
        link_bytes=_link_bytes(trace, calls, last),
        wire_bytes=told.total("kernel", 0) if told.rows else None,
        held=held(lines[first.rank], complete) if lines else None,
        times=times_of(build_graph(trace), complete),
        is_predicted=trace.manifest.is_predicted,
        loss=losses[-1] if losses else None,
    )


def _traffic_law(report: Report) -> str:
    return " + ".join(law.formula for law in report.systems if not law.is_likeness)


def _unit_bytes(trace: Trace, rank: RankStep) -> dict[tuple[Phase, str], int]:
    """The requested bytes of one rank, from its ledger."""
    buckets = {bucket.name: bucket for bucket in trace.manifest.buckets}
    found: dict[tuple[Phase, str], int] = defaultdict(int)
    for one in rank.calls:
        if one.call.op is not None:
            phase, unit = one.call.phase, one.call.unit
            bucket = buckets.get(unit) if phase is Phase.BACKWARD else None
            for name, part in _parts(bucket, unit, one.share.asked.sent_bytes):
                found[phase, name] += part
    return dict(found)


def _parts(bucket: BucketLayout | None, unit: str, sent: int) -> Iterable[tuple[str, int]]:
    """The bytes of a collective for each unit: in proportion to its columns."""
    if bucket is None:
        return [(unit, sent)]
    widths = [segment.stop - segment.start for segment in bucket.segments]
    total, done, parts = sum(widths), 0, []
    for segment, columns in zip(bucket.segments, accumulate(widths), strict=True):
        until = sent * columns // total
        parts.append((segment.unit, until - done))
        done = until
    return parts


def _link_bytes(trace: Trace, calls: Sequence[TracedCall], iteration: int) -> dict[Link, int]:
    """Payload that all ranks send and copy in the steps of an iteration, by link class.

    Returns:
        In the order of `Link`; traffic between ranks is omitted if some call's messages are not in
        the trace.
    """
    found: dict[Link | None, int] = defaultdict(int)
    for rank in trace.ranks:
        for link, copy in copies(rank):
            if copy.iteration == iteration and copy.phase in STEP_PHASES:
                found[link] += copy.payload_bytes
    of_steps = [call for call in calls if call.event.phase in STEP_PHASES]
    if all(call.has_links for call in of_steps):
        for call in of_steps:
            for share in call.shares:
                found[share.link] += share.moved.sent_bytes
    return {link: found[link] for link in Link if found[link]}


def held(line: Timeline, complete: Sequence[int]) -> RankMemoryUse:
    """Memory of one rank in iterations that all finished."""
    positions = in_training(line, complete)
    by_phase: dict[Phase, list[int]] = defaultdict(list)
    for number in positions.tolist():
        by_phase[line.samples[number].phase].append(number)
    peaks = {
        phase: top.bytes
        for phase, numbers in by_phase.items()
        if (top := peak(line, np.array(numbers, dtype=np.int64))) is not None
    }
    highest = peak(line, positions)
    roles = {} if highest is None else line.roles_at(highest.position)
    if highest is not None and (other := line.other(highest.position)) is not None:
        roles[Role.OTHER] = max(0, other)
    states = line.model_states()
    at = updates_begin(line, complete)[complete[-1]] if complete[-1] != WHOLE else -1
    at = at if at >= 0 else int(states.argmax())
    return RankMemoryUse(peak_bytes=peaks, roles=roles, states_bytes=int(states[at]))


def times_of(graph: EventGraph, complete: Sequence[int]) -> Times | None:
    """Time by cause over iterations; None if the ranks are inconsistent."""
    timed = complete[1:] if len(complete) > 1 else complete
    reports = [
        report(graph, None if iteration == WHOLE else iteration, top=0)
        for iteration in timed[-_TIMED:]
    ]
    reports = [one for one in reports if one.budgets.ranks]  # otherwise there is no time
    paths = [one.path for one in reports if one.path is not None]
    if not paths:
        return None
    is_known = all(one.budgets.waits_recorded for one in reports)
    causes = [path.by_cause() for path in paths]
    return Times(
        num_iterations=len(paths),
        duration_ns=_median(path.duration_ns for path in paths),
        by_cause_ns={
            cause.value: _median(one[cause] for one in causes) for cause in causes[0] if is_known
        },
        wall_ns=_by_phase(reports, "wall_ns"),
        exposed_ns=_by_phase(reports, "exposed_ns") if is_known else {},
        waiting_ns=_by_phase(reports, "waiting_ns") if is_known else {},
        hidden_ns=_by_phase(reports, "hidden_ns") if is_known else {},
    )


def _by_phase(reports: Sequence[GraphReport], name: str) -> dict[Phase, int]:
    return {
        phase: _median(
            getattr(one.budgets.of(phase=phase), name) // len(one.budgets.ranks) for one in reports
        )
        for phase in (*STEP_PHASES, Phase.OUTSIDE)
        if any(phase in one.budgets.phases for one in reports)
    }


def _median(values: Iterable[int]) -> int:
    return int(median(list(values)))
