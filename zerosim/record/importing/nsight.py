"""An SQLite export of Nsight Systems (`nsys export --type sqlite`): NCCL's own ranges and kernels.

NCCL annotates each call with its arguments in the NVTX domain "NCCL"; PyTorch and others annotate
phases. Tables and columns differ between versions, so each is looked up first. Sources: Nsight
Systems, "SQLite Export Schema Reference"; NVIDIA/nccl, src/include/nvtx_payload_schemas.h. The code
follows these sources and was never tested with a file from a real machine.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from zerosim.base.errors import TraceError
from zerosim.record.importing.calls import MESSAGE_BYTES
from zerosim.record.importing.communicators import COLLECTIVES, Process, profiles_of
from zerosim.record.importing.kineto import KEPT, KinetoProfile
from zerosim.record.importing.spans import ProfileSpan

SQLITE = b"SQLite format 3\x00"
_COMMUNICATOR, _RANK, _RANKS = "NCCL communicator ID", "Rank", "No. of ranks"
_PREFIX = "nccl"
_RANGES = (59, 60)
"""Event types of NVTX: push/pop ranges and start/end ranges."""
_MOST_STEPS = 2 * 10**8
"""Limit of SQLite's instructions over all queries: a crafted file could run forever."""
_EVERY = 10**6
_MOST_ROWS = 2**24
_MOST_NS = 2**61
_DEEPEST = 4
_NOTE = "sizes are those that NCCL annotates for Nsight Systems: in bytes, without types"
_TABLES = {
    "NVTX_EVENTS": "SELECT * FROM NVTX_EVENTS",
    "StringIds": "SELECT * FROM StringIds",
    "CUPTI_ACTIVITY_KIND_KERNEL": "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME",
    "TARGET_INFO_SESSION_START_TIME": "SELECT * FROM TARGET_INFO_SESSION_START_TIME",
    "TARGET_INFO_SYSTEM_ENV": "SELECT * FROM TARGET_INFO_SYSTEM_ENV",
}


def read_nsight(path: Path, content: bytes) -> list[KinetoProfile]:
    """The ranks of one export, usually those of one node.

    Raises:
        TraceError: the file is damaged, hostile, or has no calls of NCCL.
    """
    try:
        database = sqlite3.connect(":memory:")
        try:
            database.deserialize(content)
            return _read(path, _Tables(database))
        finally:
            database.close()
    except (sqlite3.Error, ValueError, OverflowError, MemoryError, RecursionError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(
            f"{path}: not an SQLite export of Nsight Systems, or a damaged one ({error}): expected "
            "what nsys export --type sqlite writes"
        ) from None


class _Tables:
    """The tables of an export; some may be missing."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database, self._steps = database, 0
        database.set_progress_handler(self._goes_on, _EVERY)
        database.execute("PRAGMA trusted_schema=OFF")
        names = database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        self.names = {str(name) for (name,) in names.fetchmany(_MOST_ROWS)}

    def _goes_on(self) -> int:
        self._steps += _EVERY
        return int(self._steps > _MOST_STEPS)

    def rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Some columns of a table; missing columns are None, a missing table is empty."""
        if table not in self.names:
            return
        asked = self._database.execute(_TABLES[table])
        places = {one[0]: place for place, one in enumerate(asked.description)}
        wanted = [places.get(column) for column in columns]
        for row in islice(asked, _MOST_ROWS):
            yield tuple(None if place is None else row[place] for place in wanted)


def _read(path: Path, tables: _Tables) -> list[KinetoProfile]:
    if "NVTX_EVENTS" not in tables.names:
        raise ValueError("it has no table NVTX_EVENTS")
    texts = dict(tables.rows("StringIds", "id", "value"))
    (base,) = next(tables.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"), (0,))
    rows = tables.rows("TARGET_INFO_SYSTEM_ENV", "name", "value")
    host = next((str(value) for name, value in rows if name == "Hostname"), "")
    processes: dict[int, Process] = {}
    shift = base if isinstance(base, int) and 0 <= base < _MOST_NS else 0
    for begin, end, kind, text, number, thread, payload in tables.rows(
        *("NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid", "jsonText")
    ):
        name = text or texts.get(number)
        if not isinstance(name, str) or not isinstance(thread, int) or not _lasts(begin, end):
            continue
        pid = thread >> 24 & 0xFFFFFF
        process = processes.setdefault(pid, Process(path=path, host=host, pid=pid))
        said = _payload(payload)
        if name.startswith(_PREFIX) and _COMMUNICATOR in said and kind in _RANGES:
            _add(process, name, said, (begin + shift, end + shift), thread)
        elif name.startswith(KEPT):
            process.spans.append(ProfileSpan(name, (pid, thread), begin + shift, end + shift, {}))
    _add_kernels(tables, texts, processes, shift)
    told = [one for one in processes.values() if one.member]
    if not told:
        raise ValueError("it has no annotations of NCCL: profile with --trace=nvtx,cuda")
    return profiles_of(told, is_timed=True, note=_NOTE)


def _lasts(begin: object, end: object) -> bool:
    return isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end < _MOST_NS


def _payload(text: object) -> dict[str, Any]:
    """NCCL's payload of a call, at this version's level of nesting."""
    if not isinstance(text, str):
        return {}
    found: dict[str, Any] = {}
    left = [(json.loads(text), 0)]
    while left:
        one, depth = left.pop()
        if isinstance(one, dict):
            found |= {name: value for name, value in one.items() if isinstance(value, int | str)}
        if isinstance(one, dict | list) and depth < _DEEPEST:
            inner = one.values() if isinstance(one, dict) else one
            left += [(value, depth + 1) for value in inner]
    return found


def _number(said: dict[str, Any], name: str) -> int | None:
    value = said.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _add(
    process: Process, name: str, said: dict[str, Any], when: tuple[int, int], thread: int
) -> None:
    """A call of NCCL, or the creation of a communicator."""
    communicator = str(said[_COMMUNICATOR])
    rank, size = _number(said, _RANK), _number(said, _RANKS)
    if rank is not None and size is not None:
        process.member[communicator] = (rank, size)
        return
    operation = name.removeprefix(_PREFIX)
    if operation in COLLECTIVES:
        call = process.call(operation, communicator, _number(said, MESSAGE_BYTES), *when)
        call.thread = (process.pid, thread)
        for peer in ("Root", "Peer rank", "Peer"):
            if (place := _number(said, peer)) is not None:
                call.args["Rank"] = place


def _add_kernels(
    tables: _Tables, texts: dict[Any, Any], processes: dict[int, Process], shift: int
) -> None:
    """The kernels of NCCL and their launches, by which a call finds its kernel."""
    wanted: set[tuple[int, int]] = set()
    for begin, end, link, number, process_id in tables.rows(
        *("CUPTI_ACTIVITY_KIND_KERNEL", "start", "end", "correlationId", "shortName", "globalPid")
    ):
        name = texts.get(number)
        if not isinstance(name, str) or "nccl" not in name.lower() or not _lasts(begin, end):
            continue
        pid = process_id >> 24 & 0xFFFFFF if isinstance(process_id, int) else -1
        if pid in processes and isinstance(link, int):
            wanted.add((pid, link))
            kernel = ProfileSpan(name, (0, 0), begin + shift, end + shift, {"correlation": link})
            processes[pid].kernels.append(kernel)
    for begin, end, link, thread in tables.rows(
        *("CUPTI_ACTIVITY_KIND_RUNTIME", "start", "end", "correlationId", "globalTid")
    ):
        pid = thread >> 24 & 0xFFFFFF if isinstance(thread, int) else -1
        if (pid, link) in wanted and _lasts(begin, end):
            launch = ProfileSpan("launch", (pid, thread), begin + shift, end + shift, {})
            processes[pid].launches[link] = launch
