"""Several traces side by side: what each sent, held and took, aligned by phase and unit.

Bytes are of one iteration and exact. Times are medians over iterations, each rank counting
equally: they belong to the machine they were measured on.
Imports numpy, zerosim's L0, record, theory, graph, analysis and this package. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from statistics import median

import numpy as np

from zerosim.analysis import GraphReport, report
from zerosim.analysis.calls import asked_of, cost_of
from zerosim.analysis.memory import (
    STEP_PHASES,
    Timeline,
    in_training,
    peak,
    updates_begin,
)
from zerosim.analysis.report import EVERYTHING
from zerosim.config import STAGE_NAMES
from zerosim.errors import ConfigError, TraceError
from zerosim.events import Kind, Phase
from zerosim.graph import build_graph
from zerosim.manifest import BucketLayout
from zerosim.memory import Role
from zerosim.record import Trace, ended_early, iterations, why_early
from zerosim.theory.placement import FP32_BYTES
from zerosim.verify.by_link import bytes_by_link
from zerosim.verify.configured import config_of
from zerosim.verify.memory import timelines
from zerosim.verify.memory_plan import plan_of
from zerosim.verify.report import Report
from zerosim.verify.side import Held, Side, Times, TrafficReason
from zerosim.verify.verify import check, report_on

FEWEST, MOST = 2, 4
"""How many traces can be compared."""
_TIMED = 20
"""Of a long run, the last iterations whose times count."""


def compare(traces: Sequence[Trace]) -> tuple[Side, ...]:
    """Measure each trace for a comparison.

    If one of them ended early, only the iterations count that all of them finished: a later one has
    what an earlier one has not, such as the optimizer's moments.

    Args:
        traces: 2 to 4, in the order in which they will stand.

    Raises:
        ConfigError: too few, or too many.
        TraceError: one of them has no iteration that all its ranks finished.
    """
    if not FEWEST <= len(traces) <= MOST:
        raise ConfigError(
            f"{len(traces)} traces to compare: expected {FEWEST} to {MOST}; give their folders"
        )
    names = _names(traces)
    complete = [_complete(trace) for trace in traces]
    common = set[int].intersection(*map(set, complete))
    if common and any(map(ended_early, traces)):
        complete = [tuple(sorted(common)) for _ in traces]
    return tuple(map(_side_of, traces, names, complete))


def _names(traces: Sequence[Trace]) -> list[str]:
    """By stage, if that tells them apart, else by folder."""
    stages = [trace.manifest.config.get("stage") for trace in traces]
    if None not in stages and len(set(stages)) == len(stages):
        return [STAGE_NAMES[stage] for stage in stages if isinstance(stage, int)]
    paths = [trace.folder.resolve() for trace in traces]
    short = [path.name for path in paths]
    return short if len(set(short)) == len(short) else [f"{p.parent.name}/{p.name}" for p in paths]


def side_of(trace: Trace, name: str) -> Side:
    """Measure one trace.

    Raises:
        TraceError: no iteration was finished by all its ranks.
    """
    return _side_of(trace, name, _complete(trace))


def _complete(trace: Trace) -> tuple[int, ...]:
    """The iterations to measure: those that all ranks finished."""
    complete = iterations(trace)
    if not complete and trace.complete and config_of(trace) is None:
        complete = (EVERYTHING,)
    if not complete:
        why = f": {reason}" if (reason := why_early(trace)) else ""
        raise TraceError(
            f"{trace.folder}: no iteration is complete on all {trace.manifest.num_ranks} ranks: "
            f"nothing to compare{why}; zerosim show {trace.folder} prints what was recorded"
        )
    return complete


def _side_of(trace: Trace, name: str, complete: tuple[int, ...]) -> Side:
    last = complete[-1]
    first = trace.ranks[0]
    [checked] = check(trace, complete[-1:])
    rows = () if checked.step.ranks[0].unknown else checked.rows
    moved: dict[TrafficReason, int] = defaultdict(int)
    for row in rows:
        if row.op is not None and row.calls[0]:
            moved[TrafficReason(row.phase, row.purpose, row.op)] += row.sent[0].trace
    losses = [
        metric.value
        for metric in first.metrics
        if metric.name == "loss" and (metric.iteration <= last or last == EVERYTHING)
    ]
    config, stage = trace.manifest.config, trace.manifest.config.get("stage")
    engine, told = config_of(trace), report_on(trace, [checked], last)
    return Side(
        name=name,
        folder=str(trace.folder),
        stage=stage if isinstance(stage, int) else None,
        traffic_law=_traffic_law(told),
        states_law="" if engine is None else plan_of(trace, engine).law,
        num_ranks=trace.manifest.num_ranks,
        num_parameters=told.num_parameters,
        element_bytes=told.element_bytes if told.systems else FP32_BYTES,
        units=tuple(unit.name for unit in trace.manifest.units),
        settings={**trace.manifest.run, **config, "ranks": trace.manifest.num_ranks},
        iteration=last,
        iterations=complete,
        incomplete=why_early(trace),
        sent_bytes=dict(sorted(moved.items())),
        unit_bytes=_unit_bytes(trace, last) if moved else {},
        link_bytes=bytes_by_link(trace, last),
        wire_bytes=told.total("kernel", 0) if told.rows else None,
        held=held(timelines(trace)[first.rank], complete) if first.memory_samples else None,
        times=_times(trace, complete),
        loss=losses[-1] if losses else None,
    )


def _traffic_law(report: Report) -> str:
    return " + ".join(law.formula for law in report.systems if not law.is_likeness)


def _unit_bytes(trace: Trace, iteration: int) -> dict[tuple[Phase, str], int]:
    buckets = {bucket.name: bucket for bucket in trace.manifest.buckets}
    rank = trace.ranks[0]
    found: dict[tuple[Phase, str], int] = defaultdict(int)
    for event in rank.events:
        if event.kind is Kind.COLLECTIVE and event.iteration == iteration:
            sent = asked_of(rank, event, cost_of(rank, event)).sent_bytes
            bucket = buckets.get(event.unit) if event.phase is Phase.BACKWARD else None
            for unit, part in _parts(bucket, event.unit, sent):
                found[event.phase, unit] += part
    return dict(found)


def _parts(bucket: BucketLayout | None, unit: str, sent: int) -> Iterable[tuple[str, int]]:
    """What of a collective's bytes is which unit's: as many as it has columns."""
    if bucket is None:
        return [(unit, sent)]
    widths = [segment.stop - segment.start for segment in bucket.segments]
    total, done, parts = sum(widths), 0, []
    for segment, columns in zip(bucket.segments, accumulate(widths), strict=True):
        until = sent * columns // total
        parts.append((segment.unit, until - done))
        done = until
    return parts


def held(line: Timeline, complete: Sequence[int]) -> Held:
    """What one rank held in iterations that all finished."""
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
    at = updates_begin(line, complete)[complete[-1]] if complete[-1] != EVERYTHING else -1
    at = at if at >= 0 else int(states.argmax())
    return Held(peak_bytes=peaks, roles=roles, states_bytes=int(states[at]))


def _times(trace: Trace, complete: Sequence[int]) -> Times | None:
    graph = build_graph(trace)
    timed = complete[1:] if len(complete) > 1 else complete
    reports = [
        report(graph, None if iteration == EVERYTHING else iteration, top=0)
        for iteration in timed[-_TIMED:]
    ]
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
