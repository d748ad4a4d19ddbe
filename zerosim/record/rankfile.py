"""Reads one rank's file: the rows, in the order of writing, as one `RankTrace`.

A truncated file, or that of a killed rank, is read up to its last whole row, and reported as such.
A row that was altered or contradicts an earlier one is an error that names the line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import ValidationError

from zerosim.record.bounds import (
    MOST,
    MOST_OF_A_COUNTER,
    MOST_RANKS,
    RELATIONS,
    check_record,
    check_times,
)
from zerosim.record.eventrows import READERS, EventRow, Events, OccurrenceRow, TransferRow
from zerosim.record.lines import Lines
from zerosim.record.schema import DECODERS, check_header_schema
from zerosim.record.shortrows import SHORT, rows_of
from zerosim.schema.events import (
    WHOLE,
    Checksum,
    DeviceClock,
    DeviceTime,
    End,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Metric,
    Occurrence,
    Op,
    Socket,
    Standstill,
    Template,
    Transfer,
    WireSample,
)
from zerosim.schema.memory import AddressMap, Allocations, Holding, MemoryPlace, MemorySample
from zerosim.schema.rows import ROW_TYPES
from zerosim.schema.strategies import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """The trace of one rank.

    Attributes:
        rank: global rank.
        header: rank, process and host.
        events: in order of their ids, completed by their closing rows; one that was never closed
            has `end_ns` None.
        groups: process groups by name; one with several backends has the first it used. Every group
            of an event is one of these.
        sockets: TCP connections by index.
        wire_samples: the kernel's counters at phase borders, in the order of writing.
        interfaces: the kernel's counters of its node's network interfaces, in the order of writing;
            only of the first rank of a node, of a run over several.
        memory_samples: live bytes by role, by number of the sample.
        allocations: counters of PyTorch's allocator at those samples, in the order of writing.
        address_maps: with a device limit, address maps at phase borders and at each iteration's
            peak, in the order of writing.
        strategies: how the program partitions its training, in the order of writing.
        metrics: numbers that the program reported, in the order of writing.
        standstills: the stacks of its program when it had written nothing for some time.
        checksums: checksums of its states, inputs and outputs, in the order of writing.
        device_clock: the alignment of the device's clock; None without device times, or if the rank
            ended before it was known.
        failure: the failure of the rank; None if it did not fail.
        unfinished: ids of events that were opened and never closed.
        num_rows: number of whole rows read.
        complete: True if the trace was closed properly and has all its rows.
        begins: for a light trace with a discarded beginning, the first complete iteration; `WHOLE`
            for a program without iterations; None for a complete trace.
    """

    rank: int
    header: Header
    events: Events
    groups: dict[str, Group]
    sockets: dict[int, Socket]
    wire_samples: tuple[WireSample, ...]
    interfaces: tuple[InterfaceSample, ...] = ()
    memory_samples: tuple[MemorySample, ...] = ()
    allocations: tuple[Allocations, ...] = ()
    address_maps: tuple[AddressMap, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    metrics: tuple[Metric, ...]
    standstills: tuple[Standstill, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    device_clock: DeviceClock | None = None
    failure: Failure | None
    unfinished: tuple[int, ...]
    num_rows: int
    complete: bool
    begins: int | None = None


def read_rank(paths: Sequence[Path], rank: int, num_ranks: int) -> tuple[RankTrace | None, str]:
    """Read one rank's file; for a light trace, also the file before it.

    Args:
        paths: regular files, in the order of writing.
        rank: the rank in the file's name.
        num_ranks: the number of ranks in the manifest.

    Returns:
        The rank's trace, None without a header; and the part missing at its end, in one line, "" if
        nothing is missing.

    Raises:
        TraceError: the file cannot be read, is damaged, or contradicts its name or the manifest.
    """
    rows = _Rows(rank, num_ranks)
    is_cut, add = False, rows.add
    for path in paths:
        lines = Lines(path)
        with lines.errors_told():
            for name, line in lines:
                if name is SHORT:
                    rows.add_block(line)
                else:
                    add(name, line)
            if path is paths[-1]:
                rows.resolve_groups()
        rows.crc, is_cut = lines.crc, lines.is_cut
    return rows.result(is_cut=is_cut)


class _Rows:
    """The result of the rows read so far."""

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        self.world = num_ranks
        self.num_rows = 0
        self.num_rows_before = 0
        self.crc = 0
        self.is_continued = False
        self.header: Header | None = None
        self.templates: dict[int, Template] = {}
        self.events: dict[int, Any] = {}
        self.open: dict[int, Any] = {}
        self.groups: dict[str, Group] = {}
        self.groups_named: dict[str, int | None] = {}
        self.sockets: dict[int, Socket] = {}
        self.wire_samples: list[WireSample] = []
        self.interfaces: list[InterfaceSample] = []
        self.memory_samples: list[MemorySample] = []
        self.places: dict[int, MemoryPlace] = {}
        self.allocations: list[Allocations] = []
        self.address_maps: list[AddressMap] = []
        self.strategies: list[Strategy] = []
        self.metrics: list[Metric] = []
        self.standstills: list[Standstill] = []
        self.checksums: list[Checksum] = []
        self.device_clock: DeviceClock | None = None
        self.failure: Failure | None = None
        self.end: End | None = None
        self.adders: dict[str, Callable[[Any], None]] = {
            "header": self.add_header,
            "group": self.add_group,
            "socket": self.add_socket,
            "event": lambda row: self.add_event(self.named(row, row.id)),
            "open": lambda row: self.add_open(self.named(row, row.id)),
            "template": self.add_template,
            "begin": lambda row: self.add_open(self.completed(row)),
            "happened": lambda row: self.add_event(self.completed(row)),
            "close": self.add_close,
            "transfer": self.add_transfer,
            "device": self.add_device_time,
            "device_clock": self.add_device_clock,
            "wire": self.wire_samples.append,
            "interface": self.interfaces.append,
            "place": self.add_place,
            "memory": self.add_memory_sample,
            "allocations": self.add_allocations,
            "addresses": self.address_maps.append,
            "strategy": self.add_strategy,
            "metric": self.metrics.append,
            "standstill": self.standstills.append,
            "checksum": self.checksums.append,
            "failure": self.add_failure,
            "end": self.add_end,
        }

    def add(self, name: str, line: bytes) -> None:
        quick = _QUICK.get(name)
        if quick is None or self.header is None:
            record = self.record(name, line)
        else:
            read, checks = quick
            try:
                record = read(line)
            except ValidationError:
                self.record(name, line)  # names the bound that a number exceeds
                raise
            for check in checks:
                check(record, self.world)
        self.adders[name](record)
        self.num_rows += 1

    def add_block(self, block: bytes) -> None:
        """Add a block of short rows; their widths bound all numbers but times and sizes."""
        if self.header is None:
            raise ValueError("short rows before the header")
        for name, row in rows_of(block):
            if name == "transfer":
                if not self.is_within(row):
                    check_record(row, self.world, Transfer)
                self.add_transfer(row)
            elif name == "close":
                self.add_times(*row)
            elif name == "begin":
                if row.issue_ns > MOST_OF_A_COUNTER:
                    check_record(row, self.world, Occurrence)
                self.add_open(self.completed(row))
            elif name == "happened":
                check_record(row, self.world, Occurrence)
                self.add_event(self.completed(row))
            else:
                changes = tuple([self.holding(*change) for change in row["changes"]])
                sample = MemorySample(**{**row, "changes": changes})
                if sample.time_ns > MOST_OF_A_COUNTER:
                    check_record(sample, self.world)
                self.add_memory_sample(sample)
            self.num_rows += 1

    def is_within(self, row: Any) -> bool:
        """Whether a message needs no further check: most do not."""
        end_ns = row.start_ns if row.end_ns is None else row.end_ns
        return bool(
            row.parent < row.id
            and row.peer < self.world
            and row.payload_bytes <= MOST
            and (row.shard or 0) <= MOST_RANKS
            and row.start_ns <= end_ns <= MOST_OF_A_COUNTER
        )

    def add_times(self, number: int, since_issue_ns: int, end_ns: int) -> None:
        """A short close: the times of an event that is open."""
        event = self.taken_open(number)
        if event is not None:
            event.start_ns, event.end_ns = event.issue_ns + since_issue_ns, end_ns
            if not event.start_ns <= end_ns <= MOST_OF_A_COUNTER:
                check_record(event, self.world, Occurrence)

    def taken_open(self, number: int) -> Any:
        """The open event that a row closes; None if it began in a discarded file."""
        event = self.open.pop(number, None)
        if event is None and not self.begins_midway:
            raise ValueError(f"the close of event {number}, which is not open")
        return event

    def holding(self, place: int, num_bytes: int) -> Holding:
        """A change of memory at a numbered place."""
        known = self.places.get(place)
        if known is None:
            raise ValueError(f"a change of memory at place {place}, which is unknown")
        if num_bytes > MOST:
            raise ValueError(f"bytes is {num_bytes}, expected 0 to {MOST}")
        return Holding(known.role, known.unit, num_bytes, known.tier)

    def add_place(self, place: MemoryPlace) -> None:
        known = self.places.setdefault(place.number, place)
        if known is not place and not (self.is_continued and known == place):
            raise ValueError(f"a second place with number {place.number}")

    def record(self, name: str, line: bytes) -> Any:
        """A row as the record that it contains, checked."""
        if name == "header":
            check_header_schema(line)
        elif self.header is None:
            raise ValueError(f"a row {name!r} before the header")
        record: Any = DECODERS[name](line)
        if name == "group" and record.backend == "fake" and self.num_ranks == 1:
            # PyTorch's fake backend: one process, and as many ranks as the program declares
            self.world = MOST_RANKS
        check_record(record, self.world)
        return record

    def add_header(self, header: Header) -> None:
        if self.header is not None:
            self.continue_with(header)
            return
        if header.rank != self.rank:
            raise ValueError(f"the header names rank {header.rank}, the file rank {self.rank}")
        if header.num_ranks != self.num_ranks:
            raise ValueError(
                f"the header says {header.num_ranks} ranks, the manifest {self.num_ranks}"
            )
        self.header = header

    def continue_with(self, header: Header) -> None:
        """Another file of the rank follows: it repeats the records that still apply."""
        assert self.header is not None, "there is one before"
        if header.segment != self.header.segment + 1 or self.is_continued or self.num_rows == 0:
            raise ValueError("a second header")
        if header.follows != f"{self.crc:08x}":
            raise ValueError(
                f"it follows a file that ends with checksum {header.follows!r}, and the one "
                f"before it ends with '{self.crc:08x}'"
            )
        self.is_continued = True
        self.num_rows_before, self.num_rows = self.num_rows, 0

    def add_strategy(self, strategy: Strategy) -> None:
        if not (self.is_continued and strategy in self.strategies):
            self.strategies.append(strategy)

    @property
    def begins_midway(self) -> bool:
        """Whether earlier files were discarded, with the beginnings of events in these."""
        return self.header is not None and self.header.segment > 0

    def add_group(self, group: Group) -> None:
        # a group can have one backend for each type of device: the first is kept
        if self.groups.setdefault(group.name, group).ranks != group.ranks:
            raise ValueError(f"a second group named {group.name!r} with different ranks")

    def add_socket(self, socket: Socket) -> None:
        if self.sockets.setdefault(socket.index, socket) != socket:
            raise ValueError(f"a second socket with index {socket.index}")

    def named(self, row: Any, event: int | None = None) -> Any:
        """A row that may name a group, whose own row may follow later: the group is then in use."""
        if row.group:
            self.groups_named.setdefault(row.group, event)
        return row

    def resolve_groups(self) -> None:
        """Check the named groups against those present.

        A rank that was killed, failed or sent nothing may not have written a group's row: the group
        of its calls is then unknown.

        Raises:
            ValueError: a run without failures names a group that it does not have.
        """
        unknown = self.groups_named.keys() - self.groups.keys()
        if not unknown:
            return
        name = min(unknown)
        event = self.groups_named[name]
        sent = bool(self.groups) or event is not None
        if self.end is not None and self.failure is None and sent:
            what = "a template" if event is None else f"event {event}"
            raise ValueError(f"{what} is of group {name!r}, which is unknown")
        templates = {
            number: replace(one, group="")
            for number, one in self.templates.items()
            if one.group in unknown
        }
        for row in self.events.values():
            if row.__class__ is EventRow and row.group in unknown:
                row.group = ""
            elif row.__class__ is OccurrenceRow and row.template in templates:
                row.said = templates[row.template]

    def add_template(self, template: Template) -> None:
        self.named(template)
        known = self.templates.setdefault(template.number, template)
        if known is not template and not (self.is_continued and known == template):
            raise ValueError(f"a second template with number {template.number}")

    def completed(self, occurrence: Any) -> Any:
        """An event that began or happened, completed by the fields of its template."""
        template = self.templates.get(occurrence.template)
        if template is None:
            raise ValueError(
                f"event {occurrence.id} refers to template {occurrence.template}, which is unknown"
            )
        occurrence.said, occurrence.peers = template, template.peers
        occurrence.rank = self.rank
        return occurrence

    def add_event(self, event: Any) -> None:
        if event.id in self.events:
            raise ValueError(f"a second event with id {event.id}")
        if event.rank != self.rank:
            raise ValueError(f"event {event.id} is of rank {event.rank}, not of rank {self.rank}")
        self.events[event.id] = event

    def add_open(self, event: Any) -> None:
        self.add_event(event)
        self.open[event.id] = event

    def add_close(self, close: Any) -> None:
        event = self.taken_open(close.id)
        if event is None:
            return
        for name, value, default in zip(_ADDED, _added(close), _NEUTRAL, strict=True):
            if value != default:
                setattr(event, name, value)
        check_times(event.issue_ns, event.start_ns, event.end_ns)

    def add_transfer(self, transfer: Any) -> None:
        parent = self.events.get(transfer.parent)
        if parent is None and self.begins_midway:
            return
        if parent is None:
            raise ValueError(
                f"transfer {transfer.id} belongs to event {transfer.parent}, which is unknown"
            )
        if transfer.op not in _ENDS:
            raise ValueError(f"transfer {transfer.id} is {transfer.op}: expected send or receive")
        transfer.call = parent.call if parent.__class__ is TransferRow else parent
        self.add_event(transfer)

    def add_device_time(self, time: DeviceTime) -> None:
        event = self.events.get(time.event)
        if event is None and self.begins_midway:
            return
        if event is None or event.__class__ is TransferRow:
            raise ValueError(f"device times of event {time.event}, which is unknown")
        event.device_begin_ns, event.device_end_ns = time.begin_ns, time.end_ns

    def add_device_clock(self, clock: DeviceClock) -> None:
        self.device_clock = clock

    def add_memory_sample(self, sample: MemorySample) -> None:
        if sample.number != len(self.memory_samples):
            raise ValueError(
                f"memory sample {sample.number}, expected number {len(self.memory_samples)}"
            )
        if sample.event is not None and sample.event not in self.events:
            raise ValueError(
                f"memory sample {sample.number} belongs to event {sample.event}, which is unknown"
            )
        self.memory_samples.append(sample)

    def add_allocations(self, allocations: Allocations) -> None:
        lengths = {
            len(allocations.numbers),
            len(allocations.allocated_bytes),
            len(allocations.peak_bytes),
        }
        last = max(allocations.numbers, default=-1)
        if len(lengths) > 1 or last >= len(self.memory_samples):
            raise ValueError("allocations that do not match the memory samples before them")
        self.allocations.append(allocations)

    def add_failure(self, failure: Failure) -> None:
        if self.failure is not None:
            raise ValueError("a second failure")
        self.failure = failure

    def add_end(self, end: End) -> None:
        self.end = end

    def begins(self) -> int | None:
        """The first complete iteration, as in `RankTrace.begins`."""
        if self.header is None or not self.begins_midway:
            return None
        if self.header.since is not None:
            return self.header.since
        seen = [event.iteration for event in self.events.values() if event.iteration >= 0]
        return min(seen) + 1 if seen else WHOLE

    def result(self, *, is_cut: bool) -> tuple[RankTrace | None, str]:
        """The rank's trace, and the part missing at its end."""
        killed = "the rank was killed or the file was cut"
        if self.header is None:
            return None, f"rank {self.rank}: the trace has no complete row: {killed}"
        missing = ""
        if self.end is None:
            within = ", within a row and" if is_cut else ""
            missing = (
                f"rank {self.rank}: the trace stops after {self.num_rows} rows{within} without "
                f"its end row: {killed}"
            )
        elif self.end.num_rows != self.num_rows - 1:
            missing = (
                f"rank {self.rank}: the trace has {self.num_rows - 1} rows before its end row, "
                f"which counts {self.end.num_rows}: the writer lost some"
            )
        trace = RankTrace(
            rank=self.rank,
            header=self.header,
            events=Events(self.events[number] for number in sorted(self.events)),
            groups=self.groups,
            sockets=self.sockets,
            wire_samples=tuple(self.wire_samples),
            interfaces=tuple(self.interfaces),
            memory_samples=tuple(self.memory_samples),
            allocations=tuple(self.allocations),
            address_maps=tuple(self.address_maps),
            strategies=tuple(self.strategies),
            metrics=tuple(self.metrics),
            standstills=tuple(self.standstills),
            checksums=tuple(self.checksums),
            device_clock=self.device_clock,
            failure=self.failure,
            unfinished=tuple(sorted(self.open)),
            num_rows=self.num_rows_before + self.num_rows,
            complete=not missing,
            begins=self.begins(),
        )
        return trace, missing


_ENDS = (Op.SEND, Op.RECEIVE)
_ADDED: dict[str, object] = {
    "sent_bytes": None,
    "received_bytes": None,
    "peers": (),
    "wire": (),
    "counted_bytes": None,
    "work": (),
    "start_ns": None,
    "end_ns": None,
    "error": "",
}
"""The fields that a close can add to its event, with their default values."""
_NEUTRAL = tuple(_ADDED.values())
_added = attrgetter(*_ADDED)
_QUICK = {name: (read, RELATIONS[ROW_TYPES[name]]) for name, read in READERS.items()}
"""How the most frequent rows are read and checked."""
