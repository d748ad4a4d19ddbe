"""All checks of a diagnosis; a finding of an earlier check explains those of later ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from zerosim.record import Trace, iterations, left_out, load
from zerosim.record.importing.flight import read_dumps
from zerosim.schema.events import Kind
from zerosim.schema.manifest import Source
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import groups_of
from zerosim.verify.diagnosis.evidence import PATIENCE_S, ObservedRun
from zerosim.verify.diagnosis.findings import Diagnosis
from zerosim.verify.diagnosis.lone_messages import ways_of
from zerosim.verify.diagnosis.processes import ProcessStates, look
from zerosim.verify.diagnosis.ranks import states_of
from zerosim.verify.diagnosis.speed import speed_findings
from zerosim.verify.diagnosis.structure import structural
from zerosim.verify.diagnosis.unready import unready
from zerosim.verify.diagnosis.values import checked_iterations, value_findings

_SETTLED = 10
"""Number of completed iterations before a running program is called slow."""


def diagnose_folder(folder: Path, *, patience_s: float = PATIENCE_S) -> Diagnosis:
    """Diagnose a trace's folder, whose ranks may still be writing.

    Raises:
        TraceError: it cannot be read.
    """
    trace = load(folder)
    seen = look(trace)
    if not trace.complete:  # a rank that has ended since then has also written the reason
        trace = load(folder)
        late = look(trace)  # of ranks that had no file then
        seen = ProcessStates(late.alive | seen.alive, seen.now_ns or late.now_ns)
    return diagnose(trace, seen, patience_s=patience_s)


def diagnose_dumps(paths: Sequence[Path]) -> Diagnosis:
    """Diagnose dumps of the Flight Recorder, which contain the enqueued calls.

    Raises:
        TraceError: a file is not a dump, is hostile or damaged.
    """
    dumps = read_dumps(paths)
    found = diagnose(dumps.trace, ProcessStates(), patience_s=0)
    return replace(found, notes=dumps.notes)


def diagnose(
    trace: Trace, seen: ProcessStates | None = None, *, patience_s: float = PATIENCE_S
) -> Diagnosis:
    """Find the culprit.

    Args:
        seen: the state of the ranks' processes; by default it is determined here.
        patience_s: a rank hangs if others have waited for it at least this long.

    Returns:
        The diagnosis; without findings if nothing is wrong.
    """
    seen = look(trace) if seen is None else seen
    states = states_of(trace, seen)
    groups = groups_of(trace)
    last_ns = max(state.seen_ns for state in states.values())
    until_ns = max(last_ns, seen.now_ns or 0)
    ways = ways_of(trace)
    run = ObservedRun(trace, states, [*groups, *ways], until_ns, patience_s)
    findings = [*unready(trace), *structural(run), *value_findings(trace)]
    if not findings and (seen.now_ns is None or len(iterations(trace)) >= _SETTLED):
        findings = speed_findings(run)
    num_calls = sum(len(calls) for group in groups for calls in group.calls.values())
    num_messages = sum(len(way.calls[way.ranks[0]]) for way in ways)
    is_alone = len(states) == 1 and trace.manifest.num_ranks > 1
    looked_at = wording.said(
        "looked.alone" if is_alone else "looked.at_messages" if ways else "looked.at",
        calls=wording.counted("calls", num_calls),
        ranks=len(states),
        groups=wording.counted("groups", len(groups)),
        messages=wording.counted("messages", num_messages),
        iterations=wording.counted("iterations", len(iterations(trace))),
    )
    checked = checked_iterations(trace.ranks)
    if checked:
        looked_at = wording.said("looked.checked", looked_at=looked_at, count=len(checked))
    return Diagnosis(
        findings=tuple(findings),
        looked_at=looked_at,
        notes=(*(() if findings else _unrecorded(trace)), *_notes(trace, checked)),
        is_running=seen.now_ns is not None,
        failed="" if findings else _failed(trace) or _cut_off(run),
    )


def _unrecorded(trace: Trace) -> Iterator[str]:
    """The iterations that a light trace leaves out, and where each rank was seen last."""
    light = trace.manifest.light
    if light is None or light.every == 1:
        return
    yield wording.said("looked.light", every=light.every)
    positions: dict[str, list[int]] = {}
    for rank in trace.ranks:
        if rank.standstills and rank.standstills[-1].stack:
            positions.setdefault(rank.standstills[-1].stack[0], []).append(rank.rank)
    for position, ranks in positions.items():
        yield wording.said("looked.last_seen", ranks=wording.ranks(ranks), position=position)


def _failed(trace: Trace) -> str:
    """The first call that ended in an error, in words."""
    events = (event for rank in trace.ranks for event in rank.events if event.error)
    first = min(events, key=lambda event: event.end_ns or event.issue_ns, default=None)
    if first is None:
        return ""
    return wording.said(
        "headline.failed_call_after" if first.end_ns else "headline.failed_call",
        call=wording.call(first),
        rank=first.rank,
        time=wording.seconds((first.end_ns or 0) - first.issue_ns),
        error=first.error,
    )


def _cut_off(run: ObservedRun) -> str:
    """A note that ranks left no last row, with the calls pending on the device; "" if they did."""
    gone = [state for state in run.states.values() if state.is_gone]
    if not gone:
        return ""
    cut_off = wording.said("headline.cut_off", ranks=wording.ranks(state.rank for state in gone))
    for state in gone:
        calls = [event for _, event in state.trace.events.of_kind(Kind.COLLECTIVE)]
        done = [state.over_ns(event) is not None for event in calls]
        if state.trace.header.device != "cpu" and any(done) and not all(done):
            first = calls[done.index(False)]
            return wording.said(
                "headline.not_over",
                cut_off=cut_off,
                call=wording.call(first),
                at=wording.at(first.source),
                rank=state.rank,
            )
    return cut_off


def _notes(trace: Trace, checked: Sequence[int]) -> Iterator[str]:
    if trace.manifest.is_predicted:
        yield from left_out(trace)
    elif trace.manifest.source is Source.IMPORTED:
        missing = trace.manifest.num_ranks - len(trace.ranks)
        if missing:
            yield wording.said(
                "looked.no_file", missing=f"{missing:,}", ranks=f"{trace.manifest.num_ranks:,}"
            )
        yield wording.said("looked.imported")
    elif not checked:
        yield wording.said("looked.unchecked")
