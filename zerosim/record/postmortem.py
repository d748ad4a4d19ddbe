"""Who failed, and where the others were waiting: read from the traces that all ranks left.

Imports the standard library, zerosim's L0 and `store`. No torch.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path

from zerosim.errors import TraceError
from zerosim.events import Event, Failure, Kind, Phase
from zerosim.record.rankfile import RankTrace
from zerosim.record.store import load


def explain_failure(
    folder: Path, num_ranks: int, exit_codes: Mapping[int, int], timeout_s: float
) -> str:
    """Say in a few lines what ended a run: who failed first, then where each other rank was.

    Args:
        folder: the trace that was being written.
        exit_codes: of the ranks that had ended by themselves, by rank; negative for a signal.
        timeout_s: how long a silent rank was waited for.
    """
    ranks: dict[int, RankTrace] = {}
    with contextlib.suppress(TraceError):
        ranks = {trace.rank: trace for trace in load(folder).ranks}
    culprits = _culprits(ranks, exit_codes, num_ranks)
    lines = [_about_culprit(rank, ranks.get(rank), exit_codes, timeout_s) for rank in culprits]
    for rank, trace in sorted(ranks.items()):
        if rank not in culprits:
            lines.append(_about_waiting(rank, trace))
    if ranks:
        lines.append(f"what was recorded until then: zerosim show {folder}")
    return "\n".join(lines)


def _culprits(
    ranks: Mapping[int, RankTrace], exit_codes: Mapping[int, int], num_ranks: int
) -> list[int]:
    """Ranks that were killed; else that failed by themselves; else that fell silent."""
    killed = [rank for rank, code in exit_codes.items() if code < 0]
    if killed:
        return sorted(killed)
    faulty = [
        rank
        for rank, trace in ranks.items()
        if trace.failure is not None and not trace.failure.peer_lost
    ]
    if faulty:
        return sorted(faulty)
    silent = [
        rank
        for rank in range(num_ranks)
        if rank not in exit_codes and (rank not in ranks or not ranks[rank].complete)
    ]
    return silent or sorted(exit_codes)


def _about_culprit(
    rank: int, trace: RankTrace | None, exit_codes: Mapping[int, int], timeout_s: float
) -> str:
    code = exit_codes.get(rank)
    if code is not None and code < 0:
        what = f"was killed ({_signal_name(-code)})"
    elif trace is not None and trace.failure is not None and not trace.failure.peer_lost:
        what = f"failed: {trace.failure.message}"
    elif code is None:
        what = f"stopped answering for {timeout_s:g} s"
    else:
        what = f"ended with status {code}"
    return f"rank {rank} {what}{_last_seen(trace)}"


def _about_waiting(rank: int, trace: RankTrace) -> str:
    if trace.failure is not None and trace.failure.op is not None:
        return f"rank {rank} was waiting {_where(trace.failure)}"
    waiting = [event for event in _open_events(trace) if event.kind is Kind.COLLECTIVE]
    if waiting:
        return f"rank {rank} was waiting {_where(waiting[0])}"
    if trace.complete and trace.failure is None:
        return f"rank {rank} had finished"
    return f"rank {rank} was not waiting for anyone{_last_seen(trace)}"


def _where(what: Event | Failure) -> str:
    peers = what.waiting_for if isinstance(what, Failure) else what.peers
    names = " and ".join(str(peer) for peer in sorted(peers))
    of_whom = f" for rank{'s' if len(peers) > 1 else ''} {names}" if peers else ""
    unit = f" of {what.unit}" if what.unit else ""
    purpose = f" ({what.purpose})" if what.purpose else ""
    return f"in the {what.op}{unit}{purpose}{of_whom}, {_moment(what.phase, what.iteration)}"


def _last_seen(trace: RankTrace | None) -> str:
    if trace is None or not (trace.events or trace.wire_samples):
        return ", before its first event"
    working = _open_events(trace)
    if working:
        event = working[-1]
        if event.kind is Kind.COLLECTIVE:
            return f", {_where(event)}"
        return f", computing {event.unit}, {_moment(event.phase, event.iteration)}"
    sample = trace.wire_samples[-1] if trace.wire_samples else trace.events[-1]
    return f", {_moment(sample.phase, sample.iteration)}"


def _moment(phase: Phase, iteration: int) -> str:
    if phase is Phase.SETUP:
        return "during setup"
    if phase is Phase.OUTSIDE:
        return f"before iteration {max(iteration, 0)}"
    return f"{phase} of iteration {iteration}"


def _open_events(trace: RankTrace) -> list[Event]:
    return [event for event in trace.events if event.end_ns is None and event.parent is None]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
