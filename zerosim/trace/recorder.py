"""The recorder of one rank: what was intercepted and what was labelled, as rows in a file.

Each row is written when it is known and handed to the kernel at once, so that what happened before
a crash is on disk. Imports torch and zerosim's L0.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from zerosim.events import (
    Algorithm,
    Close,
    Event,
    Failure,
    Group,
    Header,
    Kind,
    Metric,
    Op,
    WireDelta,
    WireSample,
)
from zerosim.rows import rank_file_name
from zerosim.trace import labels
from zerosim.trace.clock import Clock
from zerosim.trace.dispatch import Call
from zerosim.trace.labels import CollectiveRequest, Description, Labels, Position
from zerosim.trace.rowfile import RowFile
from zerosim.trace.wire import Totals, Wire, difference

_ALGORITHMS = {"gloo": Algorithm.GLOO, "nccl": Algorithm.NCCL}


@dataclass(slots=True)
class _Open:
    """An event that has begun and is not over."""

    event: Event
    totals: Totals
    sent_bytes: int = 0
    received_bytes: int = 0
    counts_messages: bool = False


class _Exclusive(threading.local):
    events: list[int] | None = None


class Recorder:
    """Observes calls and labels of one process and writes them down.

    Implements `dispatch.Observer` and `labels.Sink`.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        clock: Clock,
        wire: Wire | None,
        on_description: Callable[[Description], None],
    ) -> None:
        """Open the rank's file and write its header.

        Args:
            folder: where the trace lives; it must exist.
            on_description: told what the engine says of itself.
            wire: the process's connections; None if they are not to be measured.

        Raises:
            EnvironmentFault: the file exists or cannot be created.
        """
        self._rank = header.rank
        self._is_synchronous = header.device == "cpu"
        self._clock = clock
        self._wire = wire
        self.described = on_description
        self._rows = RowFile(folder / rank_file_name(header.rank))
        self._lock = threading.RLock()
        self._next_id = 0
        self._sequences: dict[str, int] = {}
        self._groups: dict[tuple[str, str], tuple[Algorithm, tuple[int, ...]]] = {}
        self._open: dict[int, _Open] = {}
        self._transfers: dict[int, Event] = {}
        self._exclusive = _Exclusive()
        self._failed: Event | None = None
        self._rows.write("header", header)
        self._scan()

    # what the labels say

    def now_ns(self) -> int:
        """The time on this rank's clock."""
        return self._clock.now_ns()

    def entered(self, position: Position) -> None:
        """The process entered a phase: read all counters."""
        self._scan()
        if self._wire is not None:
            sample = WireSample(
                iteration=position.iteration,
                micro_step=position.micro_step,
                phase=position.phase,
                time_ns=self.now_ns(),
                counters=difference({}, self._wire.read()),
            )
            self._rows.write("wire", sample)

    def open_compute(self, labels_: Labels) -> int:
        """A computation begins."""
        event = self._event(labels_, Kind.COMPUTE)
        return self._begin(event, counts_messages=False)

    def open_collective(self, labels_: Labels, request: CollectiveRequest) -> int:
        """A collective of our own begins."""
        event = replace(
            self._event(labels_, Kind.COLLECTIVE),
            purpose=labels_.purpose,
            op=request.op,
            algorithm=request.algorithm,
            group=request.group,
            sequence=self._next_sequence(request.group),
            peers=request.peers,
            dtype=request.dtype,
            elements=request.elements,
            payload_bytes=request.payload_bytes,
        )
        return self._begin(event, counts_messages=True)

    def close(self, event: int, error: str) -> None:
        """An event is over."""
        with self._lock:
            begun = self._open.pop(event, None)
        if begun is None:
            return
        if error and begun.event.kind is Kind.COLLECTIVE:
            self._failed = self._failed or begun.event
        messages = begun.counts_messages
        self._rows.write(
            "close",
            Close(
                id=event,
                sent_bytes=begun.sent_bytes if messages else None,
                received_bytes=begun.received_bytes if messages else None,
                wire=self._moved(begun.totals) if messages else (),
                start_ns=begun.event.start_ns,
                end_ns=self.now_ns(),
                error=error,
            ),
        )

    def begin_exclusive(self) -> None:
        """This thread's next native collectives have the sockets for themselves."""
        self._exclusive.events = []

    def end_exclusive(self, error: str) -> None:
        """The native collectives since `begin_exclusive` are over."""
        events = self._exclusive.events or []
        self._exclusive.events = None
        for event in events:
            with self._lock:
                begun = self._open.pop(event)
            wire = self._moved(begun.totals) if len(events) == 1 else ()
            self._finish_native(begun, wire, error)

    def finish_transfer(self, transfer: int) -> None:
        """A message of a collective is over."""
        with self._lock:
            event = self._transfers.pop(transfer, None)
        if event is not None:
            self._rows.write("event", replace(event, end_ns=self.now_ns()))

    def metric(self, iteration: int, name: str, value: float) -> None:
        """The program reports a number."""
        now = self.now_ns()
        self._rows.write("metric", Metric(iteration=iteration, name=name, value=value, time_ns=now))

    def failure(self, message: str, *, peer_lost: bool) -> None:
        """Write down why this rank cannot go on, and in what it was."""
        with self._lock:
            waiting = [o.event for o in self._open.values() if o.event.kind is Kind.COLLECTIVE]
        last = self._failed or (waiting[0] if waiting else None)
        here = labels.position()
        self._rows.write(
            "failure",
            Failure(
                message=message,
                iteration=last.iteration if last else here.iteration,
                phase=last.phase if last else here.phase,
                unit=last.unit if last else "",
                op=last.op if last else None,
                purpose=last.purpose if last else None,
                waiting_for=last.peers if last else (),
                peer_lost=peer_lost,
                time_ns=self.now_ns(),
            ),
        )

    def finish(self) -> None:
        """Write the last row and close the file; later calls write nothing."""
        with self._lock:
            pending = list(self._transfers.values())
            self._transfers.clear()
        for event in pending:
            self._rows.write("event", event)
        self._rows.close(self.now_ns())
        if self._wire is not None:
            self._wire.close()

    # what was intercepted

    def issued(self, call: Call) -> int | None:
        """A c10d operator is about to run."""
        now = self.now_ns()
        parent = labels.open_collective()
        current = labels.current() if parent is not None else labels.snapshot()
        algorithm, ranks = self._describe(call)
        event = replace(
            self._event(current, Kind.COLLECTIVE if parent is None else Kind.TRANSFER),
            purpose=current.purpose,
            op=call.op,
            algorithm=algorithm,
            group=call.group.group_name,
            peers=() if call.peer is None else (ranks[call.peer],),
            dtype=_dtype(call.tensors),
            elements=call.elements,
            payload_bytes=call.payload_bytes,
            issue_ns=now if current.issue_ns is None else current.issue_ns,
            start_ns=now,
        )
        point_to_point = call.op in (Op.SEND, Op.RECEIVE)
        if point_to_point:
            event = replace(
                event,
                sent_bytes=event.payload_bytes if call.op is Op.SEND else 0,
                received_bytes=event.payload_bytes if call.op is Op.RECEIVE else 0,
            )
        if parent is not None:
            self._note_transfer(event, parent)
            return None
        if point_to_point:
            # its end cannot be seen: a Work of a message has no future
            self._rows.write("event", event)
            return None
        event = replace(event, sequence=self._next_sequence(event.group))
        return self._begin(event, counts_messages=False, read_wire=self._is_exclusive())

    def performed(self, token: int, work: Any) -> None:
        """The operator returned; what it began may still be in flight."""
        if token not in self._open:
            return
        if self._exclusive.events is not None:
            self._exclusive.events.append(token)
            return
        if work is None:
            self._end_native(token, "")
            return
        work.get_future().add_done_callback(lambda _: self._end_native(token, ""))

    def _note_transfer(self, event: Event, parent: int) -> None:
        hop = labels.open_hop()
        with self._lock:
            collective = self._open[parent]
            collective.sent_bytes += event.sent_bytes or 0
            collective.received_bytes += event.received_bytes or 0
            # what its collective says is not said again
            event = replace(
                event,
                parent=parent,
                algorithm=collective.event.algorithm,
                issue_ns=event.start_ns or event.issue_ns,
                source="",
                tensors=(),
            )
            if hop is not None:
                shard = hop.sends if event.op is Op.SEND else hop.receives
                event = replace(event, hop=hop.index, shard=shard)
                assert event.op is not None
                hop.transfers[event.op] = event.id
            self._transfers[event.id] = event

    def _end_native(self, token: int, error: str) -> None:
        with self._lock:
            begun = self._open.pop(token, None)
        if begun is not None:
            self._finish_native(begun, (), error)

    def _finish_native(self, begun: _Open, wire: tuple[WireDelta, ...], error: str) -> None:
        event = begun.event
        if error:
            self._failed = self._failed or event
        self._rows.write(
            "close",
            Close(
                id=event.id, wire=wire, start_ns=event.start_ns, end_ns=self.now_ns(), error=error
            ),
        )

    # shared

    def _is_exclusive(self) -> bool:
        return self._exclusive.events is not None

    def _event(self, labels_: Labels, kind: Kind) -> Event:
        position = labels_.position or labels.position()
        now = self.now_ns()
        with self._lock:
            event_id = self._next_id
            self._next_id += 1
        return Event(
            id=event_id,
            rank=self._rank,
            kind=kind,
            iteration=position.iteration,
            micro_step=position.micro_step,
            phase=position.phase,
            unit=labels_.unit,
            issue_ns=now if labels_.issue_ns is None else labels_.issue_ns,
            start_ns=now,
            source=labels_.source,
            tensors=labels_.tensors,
        )

    def _begin(self, event: Event, *, counts_messages: bool, read_wire: bool = False) -> int:
        totals = self._totals() if counts_messages or read_wire else {}
        with self._lock:
            self._open[event.id] = _Open(event, totals, counts_messages=counts_messages)
        self._rows.write("open", replace(event, start_ns=None))
        return event.id

    def _totals(self) -> Totals:
        """The counters now; on a GPU a collective's bytes move later than its call."""
        return self._wire.read() if self._wire is not None and self._is_synchronous else {}

    def _moved(self, before: Totals) -> tuple[WireDelta, ...]:
        return difference(before, self._totals())

    def _next_sequence(self, group: str) -> int:
        with self._lock:
            sequence = self._sequences.get(group, 0)
            self._sequences[group] = sequence + 1
        return sequence

    def _describe(self, call: Call) -> tuple[Algorithm, tuple[int, ...]]:
        device = call.tensors[0].device if call.tensors else torch.device("cpu")
        key = (call.group.group_name, device.type)
        if key not in self._groups:
            backend = call.group._get_backend(device).name()
            ranks = tuple(dist.get_process_group_ranks(call.group))
            self._groups[key] = (_ALGORITHMS.get(backend, Algorithm.OTHER), ranks)
            self._rows.write("group", Group(name=key[0], backend=backend, ranks=ranks))
            self._scan()
        return self._groups[key]

    def _scan(self) -> None:
        if self._wire is not None:
            for found in self._wire.scan():
                self._rows.write("socket", found)


def _dtype(tensors: list[torch.Tensor]) -> str:
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else ""
