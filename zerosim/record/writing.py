"""Writes a trace as files, for code that derives one from another; `load` reads it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zerosim.base.errors import TraceError
from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace
from zerosim.schema.events import End, Event, Kind, Transfer
from zerosim.schema.rows import MANIFEST_NAME, encode_manifest, encode_row, rank_file_name

Row = tuple[str, Any]


def write(trace: Trace, folder: Path) -> None:
    """Write a manifest and a file for each rank.

    Args:
        folder: the folder, created if missing, which must not contain a trace.

    Raises:
        TraceError: it contains a trace, or cannot be written.
    """
    if (folder / MANIFEST_NAME).exists():
        raise TraceError(f"{folder} already contains a trace: give a new folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank in trace.ranks:
            _write_rank(rank, folder / rank_file_name(rank.rank))
        (folder / MANIFEST_NAME).write_bytes(encode_manifest(trace.manifest))
    except OSError as error:
        raise TraceError(f"{folder}: cannot be written: {error.strerror or error}") from None


def _write_rank(rank: RankTrace, path: Path) -> None:
    crc, count, last_ns = 0, 0, 0
    with path.open("wb") as file:
        for name, record in _rows(rank):
            line, crc = encode_row(name, record, crc)
            file.write(line)
            count += 1
            last_ns = max(last_ns, getattr(record, "end_ns", None) or 0)
        if rank.complete:
            line, _ = encode_row("end", End(time_ns=last_ns, num_rows=count), crc)
            file.write(line)


def _rows(rank: RankTrace) -> Iterator[Row]:
    """The records of a rank, each after those that it refers to."""
    yield "header", rank.header
    yield from (("group", group) for group in rank.groups.values())
    yield from (("socket", socket) for socket in rank.sockets.values())
    yield from (("strategy", strategy) for strategy in rank.strategies)
    unfinished = set(rank.unfinished)
    for event in rank.events:
        yield _event(event, is_open=event.id in unfinished)
    for name, records in (
        ("wire", rank.wire_samples),
        ("interface", rank.interfaces),
        ("memory", rank.memory_samples),
        ("allocations", rank.allocations),
        ("addresses", rank.address_maps),
        ("metric", rank.metrics),
        ("standstill", rank.standstills),
        ("checksum", rank.checksums),
    ):
        yield from ((name, record) for record in records)
    if rank.device_clock is not None:
        yield "device_clock", rank.device_clock
    if rank.failure is not None:
        yield "failure", rank.failure


def _event(event: Event, *, is_open: bool) -> Row:
    """The fields of a message that its call lacks; all fields of other events."""
    if event.kind is not Kind.TRANSFER or event.parent is None or event.start_ns is None:
        return "open" if is_open else "event", event
    assert event.op is not None, "a message was sent or received"
    return "transfer", Transfer(
        id=event.id,
        parent=event.parent,
        op=event.op,
        peer=event.peers[0],
        elements=event.elements,
        payload_bytes=event.payload_bytes,
        start_ns=event.start_ns,
        end_ns=event.end_ns,
        hop=event.hop,
        shard=event.shard,
    )
