"""The state of a rank's recorder while a trace is open: file, counters, open events."""

from __future__ import annotations

import itertools
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass

import torch
import torch.distributed as dist

from zerosim.base.errors import ConfigError
from zerosim.schema.events import (
    Algorithm,
    Group,
    Kind,
    OperatorWork,
    Repeated,
    Template,
    WireDelta,
)
from zerosim.schema.memory import Moment
from zerosim.schema.rows import row_writer
from zerosim.schema.shortrows import begin_row, close_row, happened_row
from zerosim.trace import dry, labels
from zerosim.trace.clock import Clock
from zerosim.trace.device import DeviceTimes
from zerosim.trace.ledger import MemoryLedger
from zerosim.trace.operators import OperatorCall
from zerosim.trace.rowfile import Row, Rows
from zerosim.trace.sink import Labels, Position
from zerosim.trace.templates import Templates
from zerosim.trace.wire import Connections, Totals, difference

_SCANS = 4
"""Number of phases in which connections are searched for after a new kind of call: as many as a
step has, with `Phase.OUTSIDE`.
"""
_SCAN_NS = 100_000_000
"""After this long, connections are searched for in any case."""

# write rows that do not fit the short form, without creating a record
_begin_row = row_writer(
    *("begin", "template", "id", "iteration", "micro_step", "sequence", "issue_ns")
)
_happened_row = row_writer(
    *("happened", "template", "id", "parent", "iteration", "micro_step"),
    *("issue_ns", "start_ns", "end_ns"),
)
_close_row = row_writer(
    *("close", "id", "sent_bytes", "received_bytes", "peers", "wire", "start_ns", "end_ns"),
    *("counted_bytes", "work", "error"),
)

_NOT_READ: Totals = {}
_ALGORITHMS = {"gloo": Algorithm.GLOO, "nccl": Algorithm.NCCL}


def backend_name(group: dist.ProcessGroup, device: torch.device) -> str:
    """The backend of a group on a device; "" if there is none.

    The group's own name is less precise: "undefined" if the program named no backend. In a dry run
    it is the simulated backend.
    """
    run = dry.installed()
    try:
        name = str(group._get_backend(device).name())
    except RuntimeError:
        return ""
    return name if run is None or name != dry.FAKE_BACKEND else run.backend


@dataclass(slots=True)
class Begun:
    """An event that has begun and not ended.

    Attributes:
        template: the fields shared with others.
        sequence: as in `Event`.
        start_ns: time of its start.
        totals: the sockets' counters at its start; empty if its bytes cannot be separated.
        sent_bytes, received_bytes: bytes of the messages inside; None if it has none.
        since_issue_ns: the time from its issue to its start.
    """

    id: int
    template: Template
    sequence: int | None
    position: Position
    start_ns: int
    totals: Totals
    sent_bytes: int | None = None
    received_bytes: int | None = None
    since_issue_ns: int = 0


class EventWriter:
    """The open trace of one rank. Thread-safe.

    Attributes:
        rows: the rank's file.
        now_ns: returns the time on this rank's clock.
        take_id: returns the id of a new event.
        template: returns the shared fields of an event, as `Templates.find`.
        device: the device times; None on a CPU.
        failed: the first collective that did not complete.
    """

    def __init__(
        self,
        rows: Rows,
        clock: Clock,
        wire: Connections | None,
        memory: MemoryLedger | None,
        *,
        is_synchronous: bool,
        device: DeviceTimes | None = None,
    ) -> None:
        """Start with nothing open.

        Args:
            wire: the process's connections; None if they are not measured.
            memory: live tensors; None if they are not measured.
            is_synchronous: False on a GPU, where bytes move after the call.
            device: device times; None if they are not recorded.
        """
        self.device = device
        self.rows = rows
        self._templates = Templates(rows)
        self.template = self._templates.find
        self.failed: Begun | None = None
        self.now_ns = clock.now_ns
        self._wire = wire
        self._memory = memory
        self._is_synchronous = is_synchronous
        self._lock = threading.Lock()
        self.take_id = itertools.count().__next__
        self._sequences: dict[str, int] = {}
        self._groups: dict[tuple[str, str], tuple[Algorithm, tuple[int, ...]]] = {}
        self._named: dict[str, tuple[int, ...]] = {}
        self._begun: dict[int, Begun] = {}
        self._last_end_ns = 0
        self._kinds: set[tuple[object, ...]] = set()
        self._scans_due = _SCANS
        self._scanned_ns = 0

    # events

    def begin(
        self,
        template: Template,
        position: Position,
        *,
        issue_ns: int | None = None,
        sequence: int | None = None,
        counts_messages: bool = False,
        reads_wire: bool = False,
        on_device: bool = True,
    ) -> int:
        """Record the start of an event; returns its id.

        Args:
            issue_ns: time of issue, if it was issued earlier than now.
            sequence: as in `Event`.
            counts_messages: it consists of messages that will be intercepted.
            reads_wire: it has the sockets to itself until its end.
            on_device: False for a call on CPU tensors.
        """
        number = self.take_id()
        totals = self._totals() if reads_wire else _NOT_READ
        start_ns = self.now_ns()
        begun = Begun(number, template, sequence, position, start_ns, totals)
        if counts_messages:
            begun.sent_bytes = begun.received_bytes = 0
        self._begun[number] = begun
        iteration, micro_step = position.iteration, position.micro_step
        if issue_ns is None:
            issue_ns = start_ns
        begun.since_issue_ns = start_ns - issue_ns
        row: Row
        try:
            row = begin_row(template.number, number, iteration, micro_step, sequence, issue_ns)
        except struct.error:
            row = _begin_row(template.number, number, iteration, micro_step, sequence, issue_ns)
        if self._memory is None:
            self.rows.append(row)
        else:
            self._memory.look_after(row, Moment.BEGIN, number, position)
        if self.device is not None and on_device and template.kind is not Kind.COPY:
            self.device.begins(number, template.group)
        return number

    def begun(self, event: int) -> Begun | None:
        """The event, if it has not ended."""
        return self._begun.get(event)

    def all_begun(self) -> list[Begun]:
        """All events that have not ended, in the order of their beginnings."""
        return list(self._begun.values())

    def add_message(self, event: int, *, sent_bytes: int, received_bytes: int) -> None:
        """Count a message of an open event."""
        with self._lock:
            begun = self._begun[event]
            begun.sent_bytes = (begun.sent_bytes or 0) + sent_bytes
            begun.received_bytes = (begun.received_bytes or 0) + received_bytes

    def end(
        self,
        event: int,
        error: str,
        *,
        reads_wire: bool = False,
        is_seen: bool = True,
        counted_bytes: int | None = None,
        peers: tuple[int, ...] = (),
        work: tuple[OperatorWork, ...] = (),
    ) -> None:
        """Record the end of an event; no effect if it has already ended.

        Args:
            error: the reason for its failure; "" if it succeeded.
            is_seen: False if it ended at an unknown time.
            counted_bytes: the kernel's count for a copy from or to a disk.
            peers: the sender of a receive from any rank.
            work: the operators of a computation in a dry run.
        """
        begun = self._begun.pop(event, None)
        if begun is None:
            return
        if self.device is not None:
            self.device.ends(event)
        end_ns = self.now_ns() if is_seen else None
        if begun.template.kind is Kind.COLLECTIVE:
            self._last_end_ns = end_ns or self._last_end_ns
            if error:
                self.failed = self.failed or begun
        row: Row | None = None
        has_more = error or reads_wire or peers or work
        if end_ns is not None and begun.sent_bytes is counted_bytes is None and not has_more:
            with suppress(struct.error):
                row = close_row(event, begun.since_issue_ns, end_ns)
        if row is None:
            row = _close_row(
                event,
                begun.sent_bytes,
                begun.received_bytes,
                peers,
                difference(begun.totals, self._totals()) if reads_wire else (),
                begun.start_ns,
                end_ns,
                counted_bytes,
                work,
                error,
            )
        if self._memory is None:
            self.rows.append(row)
        else:
            self._memory.look_after(row, Moment.END, event, begun.position)

    def quiet_since_ns(self, event: int) -> int:
        """The end of the last collective; now, if this one has not ended."""
        return self.now_ns() if event in self._begun else self._last_end_ns

    def write_wait(
        self, labels_: Labels, collective: int, since_ns: int, until_ns: int | None = None
    ) -> None:
        """Record a wait of a thread for a collective; until now by default."""
        end_ns = self.now_ns() if until_ns is None else until_ns
        position = labels_.position or labels.position()
        template = self.template(labels_, position.phase, Kind.WAIT)
        number = self.take_id()
        said, at = (template.number, number, collective), (position.iteration, position.micro_step)
        row: Row
        try:
            row = happened_row(*said, at, since_ns, end_ns)
        except struct.error:
            row = _happened_row(*said, *at, since_ns, since_ns, end_ns)
        self.rows.append(row)
        if self.device is not None:
            self.device.goes_on(number)

    def comes_to_wait(self) -> int:
        """A thread is about to wait; returns the time."""
        if self.device is not None:
            self.device.comes_to_wait()
        return self.now_ns()

    def first_call(self) -> int | None:
        """The first collective that has not ended; None if there is none."""
        begun = [one.id for one in self.all_begun() if one.template.kind is Kind.COLLECTIVE]
        on_device = None if self.device is None else self.device.first_call()
        return min([*begun, *([] if on_device is None else [on_device])], default=None)

    # groups and connections

    def next_sequence(self, group: str) -> int:
        """The sequence number of a new collective of its group."""
        with self._lock:
            sequence = self._sequences.get(group, 0)
            self._sequences[group] = sequence + 1
        return sequence

    def describe_group(self, call: OperatorCall) -> tuple[Algorithm, tuple[int, ...]]:
        """Backend and global ranks of a call's group; records new groups."""
        key = (call.group_name, call.device.type)
        kind = (*key, call.op, call.peer, call.elements.bit_length())
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._scans_due = _SCANS
        if key not in self._groups:
            backend = backend_name(call.group, call.device)
            ranks = tuple(dist.get_process_group_ranks(call.group))
            if self._named.setdefault(key[0], ranks) != ranks:
                raise ConfigError(
                    f"group {key[0]} now has ranks {ranks}, but had {self._named[key[0]]}"
                )
            self._groups[key] = (_ALGORITHMS.get(backend, Algorithm.OTHER), ranks)
            self.rows.write("group", Group(name=key[0], backend=backend, ranks=ranks))
            self.scan()
        return self._groups[key]

    def ranks_of(self, group: str) -> tuple[int, ...]:
        """The global ranks of a group; empty if unknown."""
        if group not in self._named:
            for one in dist.distributed_c10d._world.pg_map:
                if one.group_name == group:
                    return tuple(dist.get_process_group_ranks(one))
        return self._named.get(group, ())

    def num_called(self, group: str) -> int:
        """Number of collectives issued in a group."""
        return self._sequences.get(group, 0)

    def forget_groups(self) -> None:
        """The process left all groups: their names may be reused."""
        self._groups.clear()

    def ignore_port(self, port: int) -> None:
        """Exclude this port: its traffic is not between ranks."""
        if self._wire is not None:
            self._wire.ignore(frozenset({port}))

    def scan(self, *, wholly: bool = True) -> None:
        """Record new connections; `wholly` as in `Connections.scan`."""
        if self._wire is not None:
            self._scanned_ns = self.now_ns()
            for found in self._wire.scan(wholly=wholly):
                self.rows.write("socket", found)

    def scan_if_due(self, *, wholly: bool) -> None:
        """The same, unless there is no reason to expect new connections.

        A backend connects when a group is created, or at the group's first call of a new kind.
        Other connections to ranks are found a little later.
        """
        if self._scans_due or self.now_ns() - self._scanned_ns >= _SCAN_NS:
            self._scans_due = max(0, self._scans_due - 1)
            self.scan(wholly=wholly)

    def counters(self) -> tuple[WireDelta, ...] | None:
        """The counters of all connections; None if not measured."""
        return None if self._wire is None else difference({}, self._wire.read())

    def repeated(self) -> tuple[Repeated, ...]:
        """Bytes retransmitted by the connections at the last reading."""
        return () if self._wire is None else self._wire.repeated()

    def close(self) -> None:
        """Write the last row; release file and connections."""
        if self.device is not None:
            self.device.close()
        self.rows.close(self.now_ns())
        if self._wire is not None:
            self._wire.close()

    def uses(self, tensors: list[torch.Tensor]) -> None:
        """A call was passed these tensors."""
        if self._memory is not None:
            self._memory.uses(tensors)

    def _totals(self) -> Totals:
        return self._wire.read() if self._wire is not None and self._is_synchronous else {}
