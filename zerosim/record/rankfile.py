"""One rank's file: rows in the order of writing become one `RankTrace`.

A file that was cut, or whose rank was killed, is read up to its last whole row and says so. A row
that is not what was written, or that contradicts an earlier one, is an error that names the line.
Imports the standard library, `zerosim.errors`, `zerosim.events`, `zerosim.rows` and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from zerosim.errors import TraceError
from zerosim.events import (
    Close,
    End,
    Event,
    Failure,
    Group,
    Header,
    InterfaceSample,
    Kind,
    Metric,
    Op,
    Socket,
    Transfer,
    WireSample,
)
from zerosim.memory import AddressMap, Allocations, MemorySample
from zerosim.record.bounds import MOST_RANKS, check_record, check_times
from zerosim.record.schema import DAMAGE, DECODERS, OtherSchemaError, check_header_schema, reason
from zerosim.record.text import one_line
from zerosim.rows import check_line
from zerosim.strategies import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTrace:
    """What one rank recorded.

    Attributes:
        rank: global rank.
        header: who the rank was.
        events: in the order of their ids; one that was opened holds what its close added, or
            stays with `end_ns` None.
        groups: process groups by name; one with several backends has the first it used.
        sockets: TCP connections by index.
        wire_samples: the kernel's counters at phase borders, in the order of writing.
        interfaces: the kernel's counters of its node's network interfaces, in the order of writing;
            only of the first rank of a node, of a run over several.
        memory_samples: what was alive by role, by number.
        allocations: what PyTorch's allocator counted at those samples, in the order of writing.
        address_maps: with a device limit, what lay where at phase borders and at each iteration's
            largest use, in the order of writing.
        strategies: how the program divides its training, in the order of writing.
        metrics: numbers that the program reported, in the order of writing.
        failure: why the rank could not go on; None if it could.
        unfinished: ids of events that were opened and never closed.
        num_rows: whole rows that were read.
        complete: True if the trace was closed in order and all its rows are here.
    """

    rank: int
    header: Header
    events: tuple[Event, ...]
    groups: dict[str, Group]
    sockets: dict[int, Socket]
    wire_samples: tuple[WireSample, ...]
    interfaces: tuple[InterfaceSample, ...] = ()
    memory_samples: tuple[MemorySample, ...] = ()
    allocations: tuple[Allocations, ...] = ()
    address_maps: tuple[AddressMap, ...] = ()
    strategies: tuple[Strategy, ...] = ()
    metrics: tuple[Metric, ...]
    failure: Failure | None
    unfinished: tuple[int, ...]
    num_rows: int
    complete: bool


def read_rank(path: Path, rank: int, num_ranks: int) -> tuple[RankTrace | None, str]:
    """Read one rank's file.

    Args:
        path: a regular file.
        rank: the rank that the file's name says.
        num_ranks: the number of ranks that the manifest says.

    Returns:
        The rank's trace, None if not even its header is there; and what is missing at its end,
        one line, "" if nothing is.

    Raises:
        TraceError: the file cannot be read, is damaged, or contradicts its name or the manifest.
    """
    rows = _Rows(rank, num_ranks)
    number, crc, is_cut = 0, 0, False
    add = rows.add
    try:
        with path.open("rb", buffering=1 << 20) as file:
            for line in file:
                number += 1
                if is_cut := not line.endswith(b"\n"):
                    rows.require_open("bytes")
                    break
                name, crc = check_line(line[:-1], crc)
                add(name, line)
    except OSError as error:
        raise TraceError(
            one_line(f"{path}: cannot be read: {error.strerror or error}: check its permissions")
        ) from None
    except OtherSchemaError as error:
        raise TraceError(one_line(f"{path}: {error}")) from None
    except DAMAGE as error:
        raise TraceError(
            one_line(
                f"{path}, line {number}: {reason(error)}: expected the rows as they were "
                f"written: copy the file again from where it was recorded, or record again"
            )
        ) from None
    return rows.result(is_cut=is_cut)


class _Rows:
    """What the rows read so far amount to."""

    def __init__(self, rank: int, num_ranks: int) -> None:
        self.rank, self.num_ranks = rank, num_ranks
        self.world = num_ranks
        self.num_rows = 0
        self.header: Header | None = None
        self.events: dict[int, Event] = {}
        self.open: dict[int, Event] = {}
        self.groups: dict[str, Group] = {}
        self.sockets: dict[int, Socket] = {}
        self.wire_samples: list[WireSample] = []
        self.interfaces: list[InterfaceSample] = []
        self.memory_samples: list[MemorySample] = []
        self.allocations: list[Allocations] = []
        self.address_maps: list[AddressMap] = []
        self.strategies: list[Strategy] = []
        self.metrics: list[Metric] = []
        self.failure: Failure | None = None
        self.end: End | None = None
        self.adders: dict[str, Callable[[Any], None]] = {
            "header": self.add_header,
            "group": self.add_group,
            "socket": self.add_socket,
            "event": self.add_event,
            "open": self.add_open,
            "close": self.add_close,
            "transfer": self.add_transfer,
            "wire": self.wire_samples.append,
            "interface": self.interfaces.append,
            "memory": self.add_memory_sample,
            "allocations": self.add_allocations,
            "addresses": self.address_maps.append,
            "strategy": self.strategies.append,
            "metric": self.metrics.append,
            "failure": self.add_failure,
            "end": self.add_end,
        }

    def require_open(self, what: str) -> None:
        if self.end is not None:
            raise ValueError(f"{what} after the end row")

    def add(self, name: str, line: bytes) -> None:
        if self.end is not None:
            self.require_open(f"a row {name!r}")
        if name == "header":
            check_header_schema(line)
        elif self.header is None:
            raise ValueError(f"a row {name!r} before the header")
        record: Any = DECODERS[name](line)
        if name == "group" and record.backend == "fake" and self.num_ranks == 1:
            # PyTorch's fake backend: one process, and as many ranks as the program says
            self.world = MOST_RANKS
        check_record(record, self.world)
        self.adders[name](record)
        self.num_rows += 1

    def add_header(self, header: Header) -> None:
        if self.header is not None:
            raise ValueError("a second header")
        if header.rank != self.rank:
            raise ValueError(f"the header is rank {header.rank}'s, the name rank {self.rank}'s")
        if header.num_ranks != self.num_ranks:
            raise ValueError(
                f"the header says {header.num_ranks} ranks, the manifest {self.num_ranks}"
            )
        self.header = header

    def add_group(self, group: Group) -> None:
        # a group can have one backend for each type of device: the first is kept
        if self.groups.setdefault(group.name, group).ranks != group.ranks:
            raise ValueError(f"a second group named {group.name!r} with other ranks")

    def add_socket(self, socket: Socket) -> None:
        if self.sockets.setdefault(socket.index, socket) != socket:
            raise ValueError(f"a second socket with index {socket.index}")

    def add_event(self, event: Event) -> None:
        if event.id in self.events:
            raise ValueError(f"a second event with id {event.id}")
        if event.rank != self.rank:
            raise ValueError(f"event {event.id} is rank {event.rank}'s, not rank {self.rank}'s")
        self.events[event.id] = event

    def add_open(self, event: Event) -> None:
        self.add_event(event)
        self.open[event.id] = event

    def add_close(self, close: Close) -> None:
        event = self.open.pop(close.id, None)
        if event is None:
            raise ValueError(f"the close of event {close.id}, which is not open")
        # This event was decoded above and nobody else has seen it, so completing it in place is
        # safe; `dataclasses.replace` of its 28 fields would double the time of reading a trace.
        for name, default in _ADDED:
            if (value := getattr(close, name)) != default:
                object.__setattr__(event, name, value)
        check_times(event.issue_ns, event.start_ns, event.end_ns)

    def add_transfer(self, transfer: Transfer) -> None:
        parent = self.events.get(transfer.parent)
        if parent is None:
            raise ValueError(
                f"transfer {transfer.id} belongs to event {transfer.parent}, which is unknown"
            )
        if transfer.op not in (Op.SEND, Op.RECEIVE):
            raise ValueError(f"transfer {transfer.id} is {transfer.op}: expected send or receive")
        sends = transfer.op is Op.SEND
        self.add_event(
            Event(
                id=transfer.id,
                parent=parent.id,
                rank=self.rank,
                kind=Kind.TRANSFER,
                iteration=parent.iteration,
                micro_step=parent.micro_step,
                phase=parent.phase,
                unit=parent.unit,
                purpose=parent.purpose,
                op=transfer.op,
                algorithm=parent.algorithm,
                group=parent.group,
                peers=(transfer.peer,),
                dtype=parent.dtype,
                elements=transfer.elements,
                payload_bytes=transfer.payload_bytes,
                sent_bytes=transfer.payload_bytes if sends else 0,
                received_bytes=0 if sends else transfer.payload_bytes,
                issue_ns=transfer.start_ns,
                start_ns=transfer.start_ns,
                end_ns=transfer.end_ns,
                hop=transfer.hop,
                shard=transfer.shard,
            )
        )

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
            raise ValueError("allocations that do not fit the memory samples before them")
        self.allocations.append(allocations)

    def add_failure(self, failure: Failure) -> None:
        if self.failure is not None:
            raise ValueError("a second failure")
        self.failure = failure

    def add_end(self, end: End) -> None:
        self.end = end

    def result(self, *, is_cut: bool) -> tuple[RankTrace | None, str]:
        """The rank's trace, and what is missing at its end."""
        killed = "the rank was killed or the file was cut"
        if self.header is None:
            return None, f"rank {self.rank}: the trace holds no whole row: {killed}"
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
            events=tuple(sorted(self.events.values(), key=attrgetter("id"))),
            groups=self.groups,
            sockets=self.sockets,
            wire_samples=tuple(self.wire_samples),
            interfaces=tuple(self.interfaces),
            memory_samples=tuple(self.memory_samples),
            allocations=tuple(self.allocations),
            address_maps=tuple(self.address_maps),
            strategies=tuple(self.strategies),
            metrics=tuple(self.metrics),
            failure=self.failure,
            unfinished=tuple(sorted(self.open)),
            num_rows=self.num_rows,
            complete=not missing,
        )
        return trace, missing


_ADDED: tuple[tuple[str, object], ...] = (
    ("sent_bytes", None),
    ("received_bytes", None),
    ("peers", ()),
    ("wire", ()),
    ("counted_bytes", None),
    ("start_ns", None),
    ("end_ns", None),
    ("error", ""),
)
"""What a close can add to its event, and the value that adds nothing."""
