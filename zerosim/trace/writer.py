"""What a rank's recorder keeps while a trace is open: its file, its counters, what has begun.

Imports torch and zerosim's L0.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Close, Event, Group, Kind, Repeated, WireDelta
from zerosim.memory import Moment
from zerosim.trace import labels
from zerosim.trace.clock import Clock
from zerosim.trace.ledger import MemoryLedger
from zerosim.trace.operators import OperatorCall
from zerosim.trace.rowfile import RowFile
from zerosim.trace.sink import Labels, Position
from zerosim.trace.wire import Connections, Totals, difference

_ALGORITHMS = {"gloo": Algorithm.GLOO, "nccl": Algorithm.NCCL}


def backend_name(group: dist.ProcessGroup, device: torch.device) -> str:
    """Who carries out what a group is asked for on a device; "" if it has nobody for that.

    What the group calls itself says less: "undefined" if its program named no backend.
    """
    try:
        return str(group._get_backend(device).name())
    except RuntimeError:
        return ""


@dataclass(slots=True)
class Begun:
    """An event that has begun and is not over.

    Attributes:
        start_ns: when it began.
        totals: the sockets' counters when it began; empty if its bytes cannot be told apart.
        sent_bytes, received_bytes: of the messages seen inside; None if it is not made of any.
    """

    event: Event
    start_ns: int
    totals: Totals
    sent_bytes: int | None = None
    received_bytes: int | None = None


class EventWriter:
    """The open trace of one rank. Safe to use from several threads.

    Attributes:
        rows: the rank's file.
        failed: the first collective that did not complete.
    """

    def __init__(
        self,
        rank: int,
        rows: RowFile,
        clock: Clock,
        wire: Connections | None,
        memory: MemoryLedger | None,
        *,
        is_synchronous: bool,
    ) -> None:
        """Start with nothing open.

        Args:
            wire: the process's connections; None if they are not to be measured.
            memory: what is alive; None if it is not to be measured.
            is_synchronous: False on a GPU, where bytes move later than the call that asks.
        """
        self.rows = rows
        self.failed: Event | None = None
        self._rank = rank
        self._clock = clock
        self._wire = wire
        self._memory = memory
        self._is_synchronous = is_synchronous
        self._lock = threading.Lock()
        self._next_id = 0
        self._sequences: dict[str, int] = {}
        self._groups: dict[tuple[str, str], tuple[Algorithm, tuple[int, ...]]] = {}
        self._named: dict[str, tuple[int, ...]] = {}
        self._begun: dict[int, Begun] = {}
        self._last_end_ns = 0

    def now_ns(self) -> int:
        """The time on this rank's clock."""
        return self._clock.now_ns()

    # events

    def take_id(self) -> int:
        """A number for a new event."""
        with self._lock:
            self._next_id += 1
            return self._next_id - 1

    def make_event(self, labels_: Labels, kind: Kind, **more: Any) -> Event:
        """An event that is asked for now, if not earlier, with what the labels say and more."""
        position = labels_.position or labels.position()
        return Event(
            id=self.take_id(),
            rank=self._rank,
            kind=kind,
            iteration=position.iteration,
            micro_step=position.micro_step,
            phase=position.phase,
            unit=labels_.unit,
            issue_ns=self.now_ns() if labels_.issue_ns is None else labels_.issue_ns,
            source=labels_.source,
            tensors=labels_.tensors,
            **more,
        )

    def begin(
        self, event: Event, *, counts_messages: bool = False, reads_wire: bool = False
    ) -> int:
        """Write down that an event begins; returns its id.

        Args:
            counts_messages: it is made of messages that will be seen.
            reads_wire: it has the sockets for itself until it ends.
        """
        begun = Begun(event, self.now_ns(), self._totals() if reads_wire else {})
        if counts_messages:
            begun.sent_bytes = begun.received_bytes = 0
        with self._lock:
            self._begun[event.id] = begun
        self.rows.write("open", event)
        self._look(Moment.BEGIN, event)
        return event.id

    def begun(self, event: int) -> Begun | None:
        """The event, if it is not over."""
        return self._begun.get(event)

    def all_begun(self) -> list[Begun]:
        """Everything that is not over, in the order of beginning."""
        with self._lock:
            return list(self._begun.values())

    def add_message(self, event: int, *, sent_bytes: int, received_bytes: int) -> None:
        """Count a message of an event that is not over."""
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
    ) -> None:
        """Write down that an event is over; nothing if it was already.

        Args:
            error: why it failed; "" if it did not.
            is_seen: False if it is over at a time that cannot be known.
            counted_bytes: what the kernel counted for a copy from or to a disk.
            peers: who sent what was received from any rank.
        """
        with self._lock:
            begun = self._begun.pop(event, None)
        if begun is None:
            return
        end_ns = self.now_ns() if is_seen else None
        if begun.event.kind is Kind.COLLECTIVE:
            self._last_end_ns = end_ns or self._last_end_ns
            if error:
                self.failed = self.failed or begun.event
        self.rows.write(
            "close",
            Close(
                id=event,
                sent_bytes=begun.sent_bytes,
                received_bytes=begun.received_bytes,
                peers=peers,
                wire=difference(begun.totals, self._totals()) if reads_wire else (),
                start_ns=begun.start_ns,
                end_ns=end_ns,
                counted_bytes=counted_bytes,
                error=error,
            ),
        )
        self._look(Moment.END, begun.event)

    def quiet_since_ns(self, event: int) -> int:
        """When the collective that ended last was over; now, if this one is not over."""
        return self.now_ns() if event in self._begun else self._last_end_ns

    def write_wait(
        self, labels_: Labels, collective: int, since_ns: int, until_ns: int | None = None
    ) -> None:
        """Write down that a thread waited for a collective; until now, if not said."""
        end_ns = self.now_ns() if until_ns is None else until_ns
        event = self.make_event(
            Labels(
                labels_.position,
                labels_.unit,
                tensors=labels_.tensors,
                source=labels_.source,
                issue_ns=since_ns,
            ),
            Kind.WAIT,
            parent=collective,
            start_ns=since_ns,
            end_ns=end_ns,
        )
        self.rows.write("event", event)

    # groups and connections

    def next_sequence(self, group: str) -> int:
        """The position of a new collective among those of its group."""
        with self._lock:
            sequence = self._sequences.get(group, 0)
            self._sequences[group] = sequence + 1
        return sequence

    def describe_group(self, call: OperatorCall) -> tuple[Algorithm, tuple[int, ...]]:
        """Who carries a call out, and the global ranks of its group; writes new groups down."""
        key = (call.group.group_name, call.device.type)
        if key not in self._groups:
            backend = backend_name(call.group, call.device)
            ranks = tuple(dist.get_process_group_ranks(call.group))
            if self._named.setdefault(key[0], ranks) != ranks:
                raise ConfigError(
                    f"group {key[0]} is now of ranks {ranks}, and was of {self._named[key[0]]}"
                )
            self._groups[key] = (_ALGORITHMS.get(backend, Algorithm.OTHER), ranks)
            self.rows.write("group", Group(name=key[0], backend=backend, ranks=ranks))
            self.scan()
        return self._groups[key]

    def ranks_of(self, group: str) -> tuple[int, ...]:
        """The global ranks of a group that was written down."""
        return self._named.get(group, ())

    def forget_groups(self) -> None:
        """The process left all groups: their names may be given anew."""
        self._groups.clear()

    def scan(self, *, wholly: bool = True) -> None:
        """Write down connections that are new; `wholly` as in `Connections.scan`."""
        if self._wire is not None:
            for found in self._wire.scan(wholly=wholly):
                self.rows.write("socket", found)

    def counters(self) -> tuple[WireDelta, ...] | None:
        """The counters of all connections; None if they are not measured."""
        return None if self._wire is None else difference({}, self._wire.read())

    def repeated(self) -> tuple[Repeated, ...]:
        """What the connections had sent again when their counters were read last."""
        return () if self._wire is None else self._wire.repeated()

    def close(self) -> None:
        """Write the last row; let go of file and connections."""
        self.rows.close(self.now_ns())
        if self._wire is not None:
            self._wire.close()

    def uses(self, tensors: list[torch.Tensor]) -> None:
        """A call was given these tensors."""
        if self._memory is not None:
            self._memory.uses(tensors)

    def _look(self, moment: Moment, event: Event) -> None:
        if self._memory is not None:
            position = Position(event.iteration, event.micro_step, event.phase)
            self._memory.look(moment, event.id, position)

    def _totals(self) -> Totals:
        return self._wire.read() if self._wire is not None and self._is_synchronous else {}
