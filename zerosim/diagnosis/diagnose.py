"""All that is looked for, in the order in which one thing explains another.

Imports zerosim's L0, record and its siblings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from zerosim.diagnosis import words
from zerosim.diagnosis.calls import groups_of
from zerosim.diagnosis.evidence import PATIENCE_S, Run
from zerosim.diagnosis.findings import Diagnosis
from zerosim.diagnosis.messages import ways_of
from zerosim.diagnosis.processes import Seen, look
from zerosim.diagnosis.ranks import states_of
from zerosim.diagnosis.speed import speed_findings
from zerosim.diagnosis.structure import structural
from zerosim.diagnosis.values import checked_iterations, value_findings
from zerosim.importing.flight import read_dumps
from zerosim.manifest import Source
from zerosim.record import Trace, iterations, left_out, load

_SETTLED = 10
"""So many iterations a run that goes on has done before it is said to be slow."""


def diagnose_folder(folder: Path, *, patience_s: float = PATIENCE_S) -> Diagnosis:
    """Likewise of a trace's folder, whose ranks may still write.

    Raises:
        TraceError: it cannot be read.
    """
    trace = load(folder)
    seen = look(trace)
    if not trace.complete:  # a rank that has ended since then has also written why
        trace = load(folder)
        late = look(trace)  # of ranks that had no file then
        seen = Seen(late.alive | seen.alive, seen.now_ns or late.now_ns)
    return diagnose(trace, seen, patience_s=patience_s)


def diagnose_dumps(paths: Sequence[Path]) -> Diagnosis:
    """Likewise of Flight Recorder's dumps, which tell what was enqueued.

    Raises:
        TraceError: one is no dump, hostile or damaged.
    """
    dumps = read_dumps(paths)
    found = diagnose(dumps.trace, Seen(), patience_s=0)
    return replace(found, notes=dumps.notes)


def diagnose(
    trace: Trace, seen: Seen | None = None, *, patience_s: float = PATIENCE_S
) -> Diagnosis:
    """Say who is at fault.

    Args:
        seen: what is known of the ranks' processes; by default they are looked for.
        patience_s: ranks that others have waited for that long, and no shorter, hang.

    Returns:
        The diagnosis; without findings if nothing is wrong.
    """
    seen = look(trace) if seen is None else seen
    states = states_of(trace, seen)
    groups = groups_of(trace)
    last_ns = max(state.last_ns for state in states.values())
    until_ns = max(last_ns, seen.now_ns or 0)
    ways = ways_of(trace)
    run = Run(trace, states, [*groups, *ways], until_ns, patience_s)
    findings = [*structural(run), *value_findings(trace)]
    if not findings and (seen.now_ns is None or len(iterations(trace)) >= _SETTLED):
        findings = speed_findings(run)
    num_calls = sum(len(calls) for group in groups for calls in group.calls.values())
    calls = f"{num_calls:,} call{'' if num_calls == 1 else 's'}"
    num_messages = sum(len(way.calls[way.ranks[0]]) for way in ways)
    messages = f" and {num_messages:,} message{'' if num_messages == 1 else 's'}"
    looked_at = (
        f"{calls} of {len(states)} ranks in {len(groups)} group{'' if len(groups) == 1 else 's'}"
        f"{messages if ways else ''} fit together, {_finished(len(iterations(trace)))} finished "
        "by all"
    )
    if len(states) == 1 and trace.manifest.num_ranks > 1:
        looked_at = f"{calls} of one rank, with no other to hold them against"
    checked = checked_iterations(trace.ranks)
    if checked:
        looked_at += f", checksums of {len(checked)} iterations agree"
    return Diagnosis(
        findings=tuple(findings),
        looked_at=looked_at,
        notes=tuple(_notes(trace, checked)),
        is_running=seen.now_ns is not None,
        failed="" if findings else _failed(trace),
    )


def _failed(trace: Trace) -> str:
    """The first call that ended in an error, in words."""
    events = (event for rank in trace.ranks for event in rank.events if event.error)
    first = min(events, key=lambda event: event.end_ns or event.issue_ns, default=None)
    if first is None:
        return ""
    after = f" after {words.seconds(first.end_ns - first.issue_ns)}" if first.end_ns else ""
    return f"{words.call(first)} of rank {first.rank} failed{after} ({first.error})"


def _finished(count: int) -> str:
    return "1 iteration was" if count == 1 else f"{count:,} iterations were"


def _notes(trace: Trace, checked: Sequence[int]) -> Iterator[str]:
    if trace.manifest.is_predicted:
        yield from left_out(trace)
    elif trace.manifest.source is Source.IMPORTED:
        missing = trace.manifest.num_ranks - len(trace.ranks)
        if missing:
            yield f"there is no file of {missing:,} of {trace.manifest.num_ranks:,} ranks"
        yield "values were not looked at: what was imported has none"
    elif not checked:
        yield "values were not looked at: record with --check-replicas 1 to have them compared"
