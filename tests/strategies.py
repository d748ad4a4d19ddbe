"""What tests draw: records of every kind, and whole traces, written as a rank writes them.

`write_trace` is the one place of the tests where records become files.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

from hypothesis import strategies as st

from zerosim.schema.events import (
    SCHEMA_VERSION,
    Algorithm,
    Close,
    End,
    Event,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Kind,
    Metric,
    Occurrence,
    Op,
    OperatorWork,
    Phase,
    Purpose,
    Repeated,
    Socket,
    Template,
    Transfer,
    WireDelta,
    WireSample,
)
from zerosim.schema.manifest import BucketLayout, Manifest, Segment, Slot, Source, UnitLayout
from zerosim.schema.memory import (
    AddressBlock,
    AddressMap,
    Allocations,
    Holding,
    MapMoment,
    MemoryPlace,
    MemorySample,
    Moment,
    Role,
)
from zerosim.schema.rows import MANIFEST_NAME, encode_manifest, encode_row, rank_file_name
from zerosim.schema.shortrows import (
    begin_row,
    close_row,
    happened_row,
    memory_row,
    seal_row,
    transfer_row,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Row = tuple[str, Any]
"""A row's name and its record."""

# JSON written by Python can hold half of a surrogate pair, which no reader accepts as text
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
times = st.integers(0, 2**62 - 1)
counts = st.integers(0, 2**53)
small = st.integers(0, 7)

wire_deltas = st.builds(WireDelta, small, counts, counts)
operator_work = st.builds(OperatorWork, texts, counts, counts, counts)


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def _tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=3).map(tuple)


def _in_order(one: Any, issue_ns: int = 0, start_ns: int | None = None) -> Any:
    """Begun when it was asked for or later, and over after that: a reader takes nothing else."""
    start = one.start_ns if one.start_ns is not None else start_ns
    start = None if start is None else max(start, issue_ns)
    end = None if one.end_ns is None else max(one.end_ns, issue_ns if start is None else start)
    return replace(one, start_ns=start, end_ns=end)


def _credible(event: Event) -> Event:
    """What a reader takes: an earlier parent, and times in order."""
    parent = event.parent if event.parent is not None and event.parent < event.id else None
    return replace(_in_order(event, event.issue_ns), parent=parent)


def _not_before(close: Close, opened: Event) -> Close:
    """A close that leaves the event's own times in order."""
    if close.end_ns is None and opened.end_ns is not None and close.start_ns is not None:
        return replace(close, end_ns=max(close.start_ns, opened.end_ns))
    return close


def events(
    ids: st.SearchStrategy[int] = small,
    ranks: st.SearchStrategy[int] = small,
    num_ranks: int = 8,
) -> st.SearchStrategy[Event]:
    """Events with every field drawn."""
    return st.builds(
        Event,
        id=ids,
        parent=_maybe(small),
        rank=ranks,
        kind=st.sampled_from(Kind),
        iteration=st.integers(-1, 5),
        micro_step=small,
        phase=st.sampled_from(Phase),
        unit=texts,
        purpose=_maybe(st.sampled_from(Purpose)),
        op=_maybe(st.sampled_from(Op)),
        algorithm=_maybe(st.sampled_from(Algorithm)),
        group=texts,
        sequence=_maybe(counts),
        peers=_tuples(st.integers(0, num_ranks - 1)),
        dtype=texts,
        elements=counts,
        payload_bytes=counts,
        sent_bytes=_maybe(counts),
        received_bytes=_maybe(counts),
        wire=_tuples(wire_deltas),
        issue_ns=times,
        start_ns=_maybe(times),
        end_ns=_maybe(times),
        source=texts,
        tensors=_tuples(texts),
        hop=_maybe(small),
        shard=_maybe(small),
        work=_tuples(operator_work),
        error=texts,
    ).map(_credible)


def closes(ids: st.SearchStrategy[int] = small, num_ranks: int = 8) -> st.SearchStrategy[Close]:
    """Closes with every field drawn."""
    return st.builds(
        Close,
        id=ids,
        sent_bytes=_maybe(counts),
        received_bytes=_maybe(counts),
        peers=_tuples(st.integers(0, num_ranks - 1)),
        wire=_tuples(wire_deltas),
        start_ns=_maybe(times),
        end_ns=_maybe(times),
        work=_tuples(operator_work),
        error=texts,
    )


def transfers(number: int, parents: list[int], num_ranks: int) -> st.SearchStrategy[Transfer]:
    """A message of one of these events, with every field drawn."""
    return st.builds(
        Transfer,
        id=st.just(number),
        parent=st.sampled_from(parents),
        op=st.sampled_from([Op.SEND, Op.RECEIVE]),
        peer=st.integers(0, num_ranks - 1),
        elements=counts,
        payload_bytes=counts,
        start_ns=times,
        end_ns=_maybe(times),
        hop=_maybe(small),
        shard=_maybe(small),
    ).map(_in_order)


wire_samples = st.builds(
    WireSample,
    iteration=st.integers(-1, 5),
    micro_step=small,
    phase=st.sampled_from(Phase),
    time_ns=times,
    counters=_tuples(wire_deltas),
    repeated=_tuples(st.builds(Repeated, small, counts)),
)
interface_samples = st.builds(
    InterfaceSample,
    time_ns=times,
    name=texts,
    sent_bytes=counts,
    received_bytes=counts,
    sent_packets=counts,
    received_packets=counts,
    addresses=_tuples(texts),
)
kernel_rows = wire_samples.map(lambda sample: ("wire", sample)) | interface_samples.map(
    lambda sample: ("interface", sample)
)
"""What the kernel counted, with the name of its row."""
holdings = st.builds(Holding, st.sampled_from(Role), texts, counts)


def memory_samples(
    number: int, event: st.SearchStrategy[int | None]
) -> st.SearchStrategy[MemorySample]:
    """Memory looked at, at an event."""
    return st.builds(
        MemorySample,
        number=st.just(number),
        event=event,
        moment=st.sampled_from(Moment),
        iteration=st.integers(-1, 5),
        micro_step=small,
        phase=st.sampled_from(Phase),
        time_ns=times,
        changes=_tuples(holdings),
        unrecorded_bytes=counts,
        allocated_bytes=_maybe(counts),
    )


address_maps = st.builds(
    AddressMap,
    moment=st.sampled_from(MapMoment),
    iteration=st.integers(-1, 5),
    micro_step=small,
    phase=st.sampled_from(Phase),
    time_ns=times,
    limit_bytes=counts,
    blocks=_tuples(st.builds(AddressBlock, counts, counts, st.sampled_from(Role), texts)),
)


def allocations(num_samples: int) -> st.SearchStrategy[Allocations]:
    """What the allocator counted at some of so many samples."""
    numbers = st.lists(st.integers(0, num_samples - 1), unique=True).map(sorted)
    return numbers.flatmap(
        lambda chosen: st.builds(
            Allocations,
            numbers=st.just(tuple(chosen)),
            allocated_bytes=st.tuples(*[counts] * len(chosen)),
            peak_bytes=st.tuples(*[counts] * len(chosen)),
        )
    )


metrics = st.builds(Metric, iteration=small, name=texts, value=st.floats(), time_ns=times)


def failures(num_ranks: int) -> st.SearchStrategy[Failure]:
    """Why a rank of so many could not go on."""
    return st.builds(
        Failure,
        message=texts,
        iteration=small,
        phase=st.sampled_from(Phase),
        unit=texts,
        op=_maybe(st.sampled_from(Op)),
        purpose=_maybe(st.sampled_from(Purpose)),
        waiting_for=_tuples(st.integers(0, num_ranks - 1)),
        peer_lost=st.booleans(),
        time_ns=times,
    )


slots = st.builds(Slot, name=texts, shape=_tuples(counts), offset=counts, elements=counts)
units = st.builds(
    UnitLayout,
    name=texts,
    elements=counts,
    padded_elements=counts,
    trainable=st.booleans(),
    slots=_tuples(slots),
)
json_values = st.recursive(
    st.none() | st.booleans() | counts | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


def manifests(num_ranks: st.SearchStrategy[int]) -> st.SearchStrategy[Manifest]:
    """Manifests of the current schema."""
    return _tuples(units).flatmap(lambda made: _manifests(num_ranks, made))


def _manifests(
    num_ranks: st.SearchStrategy[int], made: tuple[UnitLayout, ...]
) -> st.SearchStrategy[Manifest]:
    names = st.sampled_from([unit.name for unit in made]) if made else st.nothing()
    segments = st.builds(Segment, unit=names, start=counts, stop=counts)
    buckets = st.builds(BucketLayout, name=texts, segments=_tuples(segments))
    return st.builds(
        Manifest,
        schema=st.just(SCHEMA_VERSION),
        created=texts,
        program=texts,
        num_ranks=num_ranks,
        backend=texts,
        device=texts,
        versions=st.dictionaries(texts, texts, max_size=2),
        config=st.dictionaries(texts, json_values, max_size=2),
        run=st.dictionaries(texts, json_values, max_size=2),
        units=st.just(made),
        buckets=_tuples(buckets),
        source=st.sampled_from(Source),
        notes=_tuples(texts),
    )


def header(rank: int, num_ranks: int, host: str = "box") -> Header:
    """A header of the current schema."""
    return Header(
        schema=SCHEMA_VERSION,
        rank=rank,
        num_ranks=num_ranks,
        local_rank=rank,
        host=host,
        pid=1000 + rank,
        device="cpu",
        clock_ns=0,
        wall_ns=1_700_000_000_000_000_000,
    )


def manifest(num_ranks: int) -> Manifest:
    """A small manifest of the current schema."""
    return Manifest(
        schema=SCHEMA_VERSION,
        created="2026-01-01",
        program="zerosim run",
        num_ranks=num_ranks,
        backend="gloo",
        device="cpu",
        config={"stage": 2, "clip": None, "units": ["blocks.*"]},
    )


def said_once(event: Event, number: int) -> tuple[Template, Occurrence]:
    """What recurs of an event, and what does not; what neither can say is left out."""
    return (
        Template(number=number, **_values(event, Template, "number")),
        Occurrence(template=number, **_values(event, Occurrence, "template")),
    )


def from_template(occurrence: Occurrence, template: Template, rank: int) -> Event:
    """The event that two such rows say."""
    shared = _values(template, Template, "number")
    return Event(rank=rank, **shared, **_values(occurrence, Occurrence, "template"))


def _ways_to_say(event: Event, *, is_open: bool) -> list[tuple[list[Row], Event]]:
    """Rows that say an event, and what they say: all at once, or what recurs of it in advance."""
    template, occurrence = said_once(event, number=event.id)
    said = [("template", template), ("begin" if is_open else "happened", occurrence)]
    return [
        ([("open" if is_open else "event", event)], event),
        (said, from_template(occurrence, template, event.rank)),
    ]


def _values(record: Any, kind: type, left_out: str) -> dict[str, Any]:
    names = {field.name for field in fields(kind)} - {left_out}
    return {name: getattr(record, name) for name in names}


def _close_of(opened: Event, num_ranks: int) -> st.SearchStrategy[Close]:
    """Closes that leave an event's times in order."""
    return closes(ids=st.just(opened.id), num_ranks=num_ranks).map(
        lambda close: _not_before(_in_order(close, opened.issue_ns, opened.start_ns), opened)
    )


def _group(name: str, rank: int, backend: str = "gloo") -> Row:
    return "group", Group(name=name, backend=backend, ranks=tuple({0, rank}))


@st.composite
def rank_rows(draw: st.DrawFn, rank: int, num_ranks: int, max_events: int = 6) -> list[Row]:
    """Rows of one rank without its end row: a header, then all kinds in a legal order."""
    rows: list[Row] = [("header", header(rank, num_ranks))]
    groups = set(draw(st.lists(texts, max_size=2, unique=True)))
    rows += [_group(name, rank, draw(texts)) for name in sorted(groups)]
    rows += [
        ("socket", Socket(index=index, local=draw(texts), remote=draw(texts)))
        for index in range(draw(st.integers(0, 2)))
    ]
    ids = draw(st.lists(st.integers(0, 99), max_size=max_events, unique=True))
    still_open: list[Event] = []
    num_samples = 0
    for place in ids:
        is_open = draw(st.booleans())
        drawn = draw(events(st.just(place), st.just(rank), num_ranks))
        said, event = draw(st.sampled_from(_ways_to_say(drawn, is_open=is_open)))
        rows += [_group(drawn.group, rank)] * (drawn.group not in groups)
        groups.add(drawn.group)
        rows += said
        if is_open:
            still_open.append(event)
        if draw(st.booleans()) and still_open:
            rows.append(("close", draw(_close_of(still_open.pop(0), num_ranks))))
        if draw(st.booleans()):
            parents = ids[: ids.index(place) + 1]
            rows.append(("transfer", draw(transfers(100 + place, parents, num_ranks))))
        if draw(st.booleans()):
            rows.append(draw(kernel_rows))
        if draw(st.booleans()):
            seen = ids[: ids.index(place) + 1]
            sample = memory_samples(num_samples, st.none() | st.sampled_from(seen))
            rows.append(("memory", draw(sample)))
            num_samples += 1
    if num_samples and draw(st.booleans()):
        rows.append(("allocations", draw(allocations(num_samples))))
    rows += draw(_tuples(address_maps.map(lambda drawn: ("addresses", drawn))))
    if draw(st.booleans()):
        rows.append(("metric", draw(metrics)))
    if draw(st.booleans()):
        rows.append(("failure", draw(failures(num_ranks))))
    return rows


@dataclass(frozen=True)
class Written:
    """A trace to be written: what its manifest and its ranks say.

    Attributes:
        rows: by rank, without the end rows.
    """

    manifest: Manifest
    rows: dict[int, list[Row]]


@st.composite
def traces(draw: st.DrawFn, max_ranks: int = 3) -> Written:
    """Whole traces of a few ranks."""
    num_ranks = draw(st.integers(1, max_ranks))
    return Written(
        manifest=draw(manifests(st.just(num_ranks))),
        rows={rank: draw(rank_rows(rank, num_ranks)) for rank in range(num_ranks)},
    )


def ended(rows: Sequence[Row]) -> list[Row]:
    """The rows with the end row of a trace that was closed in order."""
    return [*rows, ("end", End(time_ns=9, num_rows=len(rows)))]


def encode_rows(rows: Sequence[Row], *, sealed_after: int = 0) -> bytes:
    """A rank's file.

    Args:
        sealed_after: rows that fit are short, with a seal after so many; 0 for none.
    """
    lines: list[bytes] = []
    crc = unsealed = 0
    issued: dict[int, int] = {}
    numbers: dict[MemoryPlace, int] = {}
    for name, record in rows:
        if name == "begin":
            issued[record.id] = record.issue_ns
        elif name == "place":
            numbers[replace(record, number=0)] = record.number
        row = _as_short(name, record, issued, numbers) if sealed_after else None
        if row is None:
            line, crc = encode_row(name, record, crc)
            lines.append(line)
            unsealed = 0
            continue
        crc = crc32(row, crc)
        lines.append(row)
        unsealed += 1
        if unsealed == sealed_after:
            seal = seal_row(crc)
            lines.append(seal)
            crc, unsealed = crc32(seal, crc), 0
    return b"".join(lines)


def with_places(rows: Sequence[Row]) -> list[Row]:
    """The rows, with one that names each place of memory before the first that refers to it."""
    found: list[Row] = []
    known: set[MemoryPlace] = set()
    for name, record in rows:
        for one in record.changes if name == "memory" else ():
            place = MemoryPlace(number=0, role=one.role, unit=one.unit, tier=one.tier)
            if place not in known:
                found.append(("place", replace(place, number=len(known))))
                known.add(place)
        found.append((name, record))
    return found


def _as_short(
    name: str, record: Any, issued: dict[int, int], numbers: dict[MemoryPlace, int]
) -> bytes | None:
    """A row as a short one; None if it has more fields, or larger ones."""
    with suppress(struct.error, KeyError):
        if name == "begin" and record == replace(record, parent=None, start_ns=None, end_ns=None):
            said = (record.template, record.id, record.iteration, record.micro_step)
            return begin_row(*said, record.sequence, record.issue_ns)
        if name == "close" and record.start_ns is not None and record.end_ns is not None:
            plain = Close(id=record.id, start_ns=record.start_ns, end_ns=record.end_ns)
            since = record.start_ns - issued[record.id]
            return close_row(record.id, since, record.end_ns) if record == plain else None
        if name == "happened" and record.start_ns is not None and record.end_ns is not None:
            bare = replace(record, sequence=None, start_ns=record.issue_ns)
            said = (record.template, record.id, -1 if record.parent is None else record.parent)
            at = (record.iteration, record.micro_step)
            row = happened_row(*said, at, record.issue_ns, record.end_ns)
            return row if record == bare else None
        if name == "transfer" and record.op in {Op.SEND, Op.RECEIVE}:
            return transfer_row(
                (record.id, record.parent),
                record.op,
                record.peer,
                (record.elements, record.payload_bytes),
                (record.start_ns, record.end_ns),
                (record.hop, record.shard),
            )
        if name == "memory":
            bare = replace(record, unrecorded_bytes=0, allocated_bytes=None, peak_bytes=None)
            changes = [
                (
                    numbers[MemoryPlace(number=0, role=one.role, unit=one.unit, tier=one.tier)],
                    one.bytes,
                )
                for one in record.changes
            ]
            at = (record.iteration, record.micro_step, record.phase)
            said = (record.number, record.event, record.moment, at, record.time_ns)
            return memory_row(*said, changes) if record == bare else None
    return None


def trace_files(written: Written, *, sealed_after: int = 0) -> dict[str, bytes]:
    """The files of a trace by name, each rank closed in order; `sealed_after` as above."""
    files = {MANIFEST_NAME: encode_manifest(written.manifest)}
    for rank, rows in written.rows.items():
        files[rank_file_name(rank)] = encode_rows(ended(rows), sealed_after=sealed_after)
    return files


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write files into a folder that need not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def write_trace(folder: Path, rows: dict[int, list[Row]], num_ranks: int | None = None) -> Path:
    """Write a trace with a small manifest, each rank closed in order.

    Args:
        folder: created if need be.
        rows: by rank, each from its header on, without an end row.
        num_ranks: what the manifest says, if not as many as there are rows for.
    """
    count = len(rows) if num_ranks is None else num_ranks
    return write_files(folder, trace_files(Written(manifest=manifest(count), rows=rows)))
