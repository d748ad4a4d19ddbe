"""NCCL Inspector's lines: a JSON object for each completed call of a communicator.

It has sizes, durations and an order; timestamps only in verbose mode. Source:
NVIDIA/nccl, plugins/profiler/inspector/README.md and inspector_json.cc (format v4.0).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path

import msgspec

from zerosim.base.errors import TraceError
from zerosim.record.importing.communicators import Process, profiles_of
from zerosim.record.importing.kineto import KinetoProfile
from zerosim.record.importing.spans import ProfileSpan

MARK = b'_perf"'
"""A key in each of its lines: "coll_perf" or "p2p_perf"."""
_NOTE = (
    "NCCL Inspector leaves out messages below a size (8,192 B by default) and calls that overflow "
    "its buffers: the recording is incomplete"
)
_LINK = "External id"
_MOST_US = 2**52
"""Limit of times, since 1970."""


class _Header(msgspec.Struct):
    id: str
    rank: int
    n_ranks: int


class _Metadata(msgspec.Struct):
    hostname: str = ""
    pid: int = 0


class _Channel(msgspec.Struct):
    kernel_start_ts: int = 0
    kernel_stop_ts: int = 0


class _Times(msgspec.Struct):
    coll_start_ts: int = 0
    kernel_events: list[_Channel] = []


class _Collective(msgspec.Struct):
    coll: str
    coll_sn: int
    coll_msg_size_bytes: int
    coll_exec_time_us: int = 0
    event_trace_ts: _Times | None = None


class _Message(msgspec.Struct):
    p2p: str
    p2p_sn: int
    p2p_peer: int
    p2p_msg_size_bytes: int
    p2p_exec_time_us: int = 0


class _Line(msgspec.Struct):
    header: _Header
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    coll_perf: _Collective | None = None
    p2p_perf: _Message | None = None


InspectedLine = tuple[Path, _Line]


def read_lines(path: Path, content: bytes) -> list[InspectedLine]:
    """The lines of a file.

    Raises:
        TraceError: it is damaged, or not such a file.
    """
    found = []
    for number, text in enumerate(content.splitlines(), 1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(
                f"{path}: line {number} is not a line of NCCL Inspector ({error}): expected one "
                "JSON object per line, with header and coll_perf"
            ) from None
        found.append((path, line))
    return found


def inspected(lines: Sequence[InspectedLine]) -> list[KinetoProfile]:
    """The accounts of all ranks.

    Raises:
        TraceError: lines contradict each other, or the ranks are unknown.
    """
    by_process: dict[tuple[str, int], list[InspectedLine]] = defaultdict(list)
    for path, line in lines:
        by_process[line.metadata.hostname, line.metadata.pid].append((path, line))
    is_timed = all(_times(line) is not None for _, line in lines)
    processes = []
    for (host, pid), some in by_process.items():
        process = Process(path=some[0][0], host=host, pid=pid)
        for path, line in some:
            known = (line.header.rank, line.header.n_ranks)
            if process.member.setdefault(line.header.id, known) != known:
                raise TraceError(
                    f"{path}: process {pid} has two ranks in communicator {line.header.id}: give "
                    "lines of one run"
                )
        _add(process, [line for _, line in some], is_timed=is_timed)
        processes.append(process)
    return profiles_of(processes, is_timed=is_timed, note=_NOTE)


def _times(line: _Line) -> tuple[int, int, int] | None:
    """Times of issue, start and end of a call, in µs since 1970."""
    given = line.coll_perf and line.coll_perf.event_trace_ts
    if not given or not given.kernel_events:
        return None
    begin = min(one.kernel_start_ts for one in given.kernel_events)
    end = max(one.kernel_stop_ts for one in given.kernel_events)
    return (given.coll_start_ts, begin, end) if 0 < given.coll_start_ts <= end < _MOST_US else None


def _add(process: Process, lines: Iterable[_Line], *, is_timed: bool) -> None:
    """Add a process's calls: at their times, else one after another with their durations."""
    now = 1
    links = count(1)
    for line in sorted(lines, key=lambda one: (one.header.id, _order(one))):
        perf = line.coll_perf
        name, size, lasted = _told(line)
        times = (now, now, now + lasted)
        if is_timed and (known := _times(line)) is not None:
            times = known
        issue, begin, end = (min(max(time, 1), _MOST_US) * 1000 for time in times)
        call = process.call(name, line.header.id, size, issue, issue + 1)
        call.args[_LINK] = next(links)
        if perf is not None:
            call.args["Seq"] = perf.coll_sn
        elif line.p2p_perf is not None:
            call.args["Rank"] = line.p2p_perf.p2p_peer
        link = {_LINK: call.args[_LINK]}
        process.kernels.append(ProfileSpan("nccl", (0, 0), begin, max(begin, end), link))
        now += max(lasted, 0) + 1


def _order(line: _Line) -> tuple[int, int]:
    if line.coll_perf is not None:
        return 0, line.coll_perf.coll_sn
    return 1, line.p2p_perf.p2p_sn if line.p2p_perf is not None else 0


def _told(line: _Line) -> tuple[str, int | None, int]:
    """Name, size in bytes and duration in µs of a call."""
    if line.coll_perf is not None:
        one = line.coll_perf
        return one.coll, one.coll_msg_size_bytes, min(max(one.coll_exec_time_us, 0), _MOST_US)
    if line.p2p_perf is not None:
        two = line.p2p_perf
        return two.p2p, two.p2p_msg_size_bytes, min(max(two.p2p_exec_time_us, 0), _MOST_US)
    return "", None, 0
