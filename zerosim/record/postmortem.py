"""The rank that failed, and the positions of the others, from the traces of all ranks."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zerosim.base.errors import TraceError
from zerosim.record.rankfile import RankTrace
from zerosim.record.store import load
from zerosim.schema.events import Event, Failure, Kind, Op, Phase, WireSample

_OURS = "zerosim.base.errors."
_WAITED = "CollectiveError"
"""The error of a rank that stopped because another did."""


@dataclass(frozen=True, slots=True)
class _EndedRank:
    """The state of a rank after the run.

    Attributes:
        trace: its trace; None if it did not write its first row.
        code: its exit code; negative for a signal; None if it had to be killed.
        error: the last line of its traceback; "" without one.
        num_iterations: iterations of the whole run; None if unknown.
    """

    rank: int
    trace: RankTrace | None
    code: int | None
    error: str
    num_iterations: int | None

    @property
    def waited(self) -> bool:
        """Whether it stopped only because another rank stopped."""
        if self.trace is not None and self.trace.failure is not None:
            return self.trace.failure.peer_lost
        return self.error.split(":")[0].endswith(_WAITED)

    @property
    def failed(self) -> bool:
        """Whether it stopped by itself, not because of another rank."""
        has_failure = self.trace is not None and self.trace.failure is not None
        return (has_failure or self.code not in (None, 0)) and not self.waited

    @property
    def silent(self) -> bool:
        """Whether it had to be killed before it finished."""
        return self.code is None and not self.waited and not self.finished

    @property
    def finished(self) -> bool:
        """Whether it closed its trace properly."""
        return self.trace is not None and self.trace.complete and self.trace.failure is None


def explain_failure(
    folder: Path,
    num_ranks: int,
    exit_codes: Mapping[int, int],
    timeout_s: float,
    errors: Mapping[int, str] | None = None,
) -> str:
    """Explain the end of a run in a few lines: the rank that failed first, then the others.

    Args:
        folder: the folder of the run's trace.
        exit_codes: exit codes by rank, of ranks that ended by themselves; negative for a signal.
        timeout_s: the timeout after which the run was ended because of a silent rank.
        errors: the last line of the traceback of each rank with one.
    """
    traces: dict[int, RankTrace] = {}
    steps: object = None
    with contextlib.suppress(TraceError):
        trace = load(folder)
        traces = {one.rank: one for one in trace.ranks}
        steps = trace.manifest.run.get("steps")
    errors = errors or {}
    ranks = [
        _EndedRank(
            rank,
            traces.get(rank),
            exit_codes.get(rank),
            errors.get(rank, ""),
            steps if isinstance(steps, int) else None,
        )
        for rank in range(num_ranks)
    ]
    culprits = _culprits(ranks)
    lines = [_about_culprit(rank, timeout_s) for rank in culprits]
    lines += [_about_other(rank, culprits) for rank in ranks if rank not in culprits]
    if traces:
        lines.append(f"the trace up to that point: zerosim show {folder}")
    return "\n".join(lines)


def _culprits(ranks: Sequence[_EndedRank]) -> list[_EndedRank]:
    """Ranks that were killed; else those that failed by themselves; else those that hung; else all
    that stopped.
    """
    killed = [rank for rank in ranks if rank.code is not None and rank.code < 0]
    failed = [rank for rank in ranks if rank.failed]
    silent = [rank for rank in ranks if rank.silent]
    awaited = [rank for rank in silent if _is_awaited(rank.rank, ranks)]
    behind = [rank for rank in silent if any(_lacked(rank, other) for other in ranks)]
    return killed or failed or awaited or behind or silent or [r for r in ranks if r.code]


def _lacked(rank: _EndedRank, other: _EndedRank) -> Event | None:
    """The first call that another rank made and this one did not; None if there is none."""
    if rank.trace is None or other.trace is None or rank is other:
        return None
    calls = {(one.group, one.sequence) for _, one in rank.trace.events.of_kind(Kind.COLLECTIVE)}
    mine = {name for name, group in rank.trace.groups.items() if rank.rank in group.ranks}
    for _, event in other.trace.events.of_kind(Kind.COLLECTIVE):
        is_call = event.sequence is not None and event.group in mine
        if is_call and (event.group, event.sequence) not in calls:
            return event
    return None


def _is_awaited(rank: int, ranks: Sequence[_EndedRank]) -> bool:
    failures = [other.trace.failure for other in ranks if other.trace is not None]
    return any(failure is not None and rank in failure.waiting_for for failure in failures)


def _about_culprit(rank: _EndedRank, timeout_s: float) -> str:
    if rank.code is not None and rank.code < 0:
        what = end_words(rank.code)
    elif rank.trace is not None and rank.trace.failure is not None and rank.failed:
        what = f"failed: {rank.trace.failure.message}"
    elif rank.code is not None:
        ours = rank.error.startswith(_OURS)
        why = rank.error.partition(": ")[2] if ours else rank.error
        what = f"failed: {why}" if why else end_words(rank.code)
    else:
        what = f"did not respond for {timeout_s:g} s"
    return f"rank {rank.rank} {what}{_last_seen(rank)}{_standing(rank) if rank.silent else ''}"


def _standing(rank: _EndedRank) -> str:
    """The line at which it hangs, if recorded."""
    last = () if rank.trace is None else rank.trace.standstills[-1:]
    return f", at {last[0].stack[0]}" if last and last[0].stack else ""


def _about_other(rank: _EndedRank, culprits: Sequence[_EndedRank]) -> str:
    trace = rank.trace
    if trace is None:
        return f"rank {rank.rank} was starting, or waiting for the others to join"
    if trace.failure is not None and trace.failure.op is not None:
        return f"rank {rank.rank} was waiting {_where(trace.failure, rank)}"
    waiting = [event for event in _open_events(trace) if event.kind is Kind.COLLECTIVE]
    if rank.silent:  # the program continued, but its device did not complete its work
        waiting += filter(None, (_lacked(one, rank) for one in culprits))
    if waiting:
        return f"rank {rank.rank} was waiting {_where(waiting[0], rank)}"
    if rank.finished:
        return f"rank {rank.rank} had finished"
    if rank.waited:
        return f"rank {rank.rank} was waiting for the others{_last_seen(rank)}"
    return f"rank {rank.rank} was in no collective{_last_seen(rank)}"


def _where(what: Event | Failure, rank: _EndedRank) -> str:
    peers = what.waiting_for if isinstance(what, Failure) else what.peers
    names = " and ".join(str(peer) for peer in sorted(peers))
    of_whom = f" for rank{'s' if len(peers) > 1 else ''} {names}" if peers else ""
    if not peers and what.op is Op.RECEIVE:
        of_whom = " from any rank"
    unit = f" of {what.unit}" if what.unit else ""
    purpose = f" ({what.purpose})" if what.purpose else ""
    return f"in the {what.op}{unit}{purpose}{of_whom}, {_moment(what, rank)}"


def _last_seen(rank: _EndedRank) -> str:
    trace = rank.trace
    if trace is None or not (trace.events or trace.wire_samples):
        return ", before its first event"
    working = _open_events(trace)
    if working:
        event = working[-1]
        if event.kind is Kind.COLLECTIVE:
            return f", {_where(event, rank)}"
        return f", computing {event.unit}, {_moment(event, rank)}"
    sample = trace.wire_samples[-1] if trace.wire_samples else trace.events[-1]
    return f", {_moment(sample, rank)}"


def _moment(what: Event | Failure | WireSample, rank: _EndedRank) -> str:
    if what.phase is Phase.SETUP:
        return "during setup"
    if what.phase is not Phase.OUTSIDE:
        return f"in {what.phase} of iteration {what.iteration}"
    if rank.num_iterations is not None and what.iteration >= rank.num_iterations:
        return "after the last iteration"
    return f"before iteration {max(what.iteration, 0)}"


def _open_events(trace: RankTrace) -> list[Event]:
    unfinished = set(trace.unfinished)
    return [event for event in trace.events if event.id in unfinished]


def end_words(code: int) -> str:
    """The end of a process in words, from its exit code: negative for a signal."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"was killed ({name})"
