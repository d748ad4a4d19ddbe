"""The recorder of one rank: intercepted calls and labels, as rows in a file.

Each row is passed to the kernel as soon as it is known, so that a crash loses no earlier row.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zerosim.schema.events import (
    Failure,
    Header,
    Kind,
    Metric,
    Phase,
    Standstill,
    WireDelta,
    WireSample,
)
from zerosim.schema.memory import Moment
from zerosim.schema.rows import rank_file_name
from zerosim.schema.stands import Stand
from zerosim.schema.strategies import Strategy
from zerosim.trace import dry, faulty, labels, threads
from zerosim.trace.calls import Calls
from zerosim.trace.checksums import Checksums
from zerosim.trace.clock import Clock
from zerosim.trace.device import DeviceTimes, Marks
from zerosim.trace.extent import Extent
from zerosim.trace.gate import gate
from zerosim.trace.interfaces import read_interfaces, spans_nodes
from zerosim.trace.labeler import Labeler
from zerosim.trace.ledger import MemoryLedger
from zerosim.trace.rowfile import RowFile
from zerosim.trace.segments import SegmentedFile
from zerosim.trace.sink import CollectiveRequest, CopyRequest, Description, Labels, Position
from zerosim.trace.templates import Shared
from zerosim.trace.wire import Connections
from zerosim.trace.writer import EventWriter

_LOOK_S = 0.0005
_MOST_LOOKS = 40
_NOWHERE = Position()
"""The position of a process between recorded iterations."""


class Recorder:
    """Records labels and events of one process. Implements `sink.Sink`.

    Attributes:
        calls: the observer of intercepted operators.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        clock: Clock,
        wire: Connections | None,
        on_description: Callable[[Description], None],
        extent: Extent,
        *,
        marks: Marks | None = None,
    ) -> None:
        """Open the rank's file; `begin` writes its first row, and `finish` closes it in any case.

        Args:
            folder: folder of the trace; it must exist.
            wire: the process's connections; None if they are not measured.
            on_description: called with the engine's description.
            extent: the scope of the recording.
            marks: marks of the rank's device; None on a CPU.

        Raises:
            EnvironmentFault: the file exists or cannot be created.
        """
        threads.began()
        self._segments = (
            None if extent.light is None else SegmentedFile(folder, header, keep=extent.light.keep)
        )
        rows = self._segments or RowFile(folder / rank_file_name(header.rank))
        on_cpu = header.device == "cpu"
        self._memory = (
            MemoryLedger(
                rows,
                clock.now_ns,
                on_cuda=not on_cpu,
                counts_allocations=extent.allocations and on_cpu,
            )
            if extent.looks_at_memory
            else None
        )
        self._extent = extent
        self._rank = header.rank
        self._is_light = extent.light is not None
        self._dry = dry.installed()
        self._is_between = False
        self._counts_interfaces = wire is not None and spans_nodes()
        self._counted_iteration: int | None = None
        self._device = None if marks is None else DeviceTimes(rows, marks)
        self._writer = EventWriter(
            rows, clock, wire, self._memory, is_synchronous=on_cpu, device=self._device
        )
        self._checksums = (
            Checksums(rows.write, self._writer.now_ns, extent) if extent.check_replicas else None
        )
        self.calls = Calls(self._writer, extent, self._checksums)
        self.described = on_description
        self.now_ns = self._writer.now_ns
        self.comes_to_wait = self._writer.comes_to_wait
        self.first_call = self._writer.first_call
        self.begin_exclusive = self.calls.begin_exclusive
        self.end_exclusive = self.calls.end_exclusive
        self._header = header

    def begin(self) -> None:
        """Write the first row, and look for connections.

        Raises:
            EnvironmentFault: it cannot be written.
        """
        if self._segments is None:
            self._writer.rows.write("header", self._header)
        self._writer.scan()

    def entered(self, position: Position) -> None:
        """The process entered a phase: read all counters.

        Of unrecorded iterations, only the beginning of the first one is recorded, without an
        iteration: the kernel's counts until the next recorded iteration belong to none.
        """
        threads.entered(position.phase)
        if gate.is_closed:
            gate.stop(_stand(Kind.MARK, labels.current()))
        if (faults := faulty.installed()) is not None:
            faults.entered(position)
        if self._checksums is not None:
            self._checksums.entered(position)
        was_between, self._is_between = self._is_between, not self._extent.takes(position.iteration)
        if self._is_between and was_between:
            self.calls.end_those_over()
            self.calls.release_works()
            return
        if self._segments is not None and not self._is_between:
            self._segments.enters(position.iteration)
        self._writer.scan_if_due(wholly=position.phase not in (Phase.BACKWARD, Phase.UPDATE))
        self._read(_NOWHERE if self._is_between else position)

    def read(self) -> None:
        """Read all counters at the current position, including those of new connections."""
        self._writer.scan()
        position = labels.position()
        threads.entered(position.phase)
        self._read(position if self._extent.takes(position.iteration) else _NOWHERE)

    def _read(self, position: Position) -> None:
        self.calls.end_those_over()
        self.calls.release_works()
        is_quiet = self._is_quiet(position)
        counters = self._settled() if is_quiet else self._writer.counters()
        if counters is not None:
            sample = WireSample(
                iteration=position.iteration,
                micro_step=position.micro_step,
                phase=position.phase,
                time_ns=self.now_ns(),
                counters=counters,
                repeated=self._writer.repeated(),
                is_quiet=is_quiet,
            )
            self._writer.rows.write("wire", sample)
        if position.iteration != self._counted_iteration:
            self._counted_iteration = position.iteration
            self._count_interfaces()
        if self._memory is not None:
            self._memory.look(position)

    def _is_quiet(self, position: Position) -> bool:
        """Whether a device has reached this border of an iteration, with nothing pending.

        An engine synchronizes its device at the end of an iteration, so that each iteration has its
        own bytes; a program is never made to wait.
        """
        if self._device is None:
            return False
        is_border = position.phase is Phase.OUTSIDE or (
            position.phase is Phase.FORWARD and position.micro_step == 0
        )
        if position.phase is Phase.OUTSIDE and labels.is_described():
            self._device.wait()
        return self._device.write() and is_border

    def _settled(self) -> tuple[WireDelta, ...] | None:
        """The counters once stable: completed sends of a device may still leave its host."""
        before = self._writer.counters()
        for _ in range(_MOST_LOOKS):
            time.sleep(_LOOK_S)
            after = self._writer.counters()
            if after == before:
                break
            before = after
        return before

    def open_compute(self, labels_: Labels, position: Position) -> int | None:
        """A computation begins."""
        if gate.is_closed:
            gate.stop(_stand(Kind.COMPUTE, labels_))
        if self._is_light:
            return None
        self.calls.release_works()
        # autograd saves nothing of an update, which may run beside a forward
        if self._memory is not None and position.phase is not Phase.UPDATE:
            self._memory.computes(labels_.unit)
        if self._dry is not None:
            self._dry.begin_work()
        template = self._writer.template(labels_, position.phase, Kind.COMPUTE)
        return self._writer.begin(template, position, issue_ns=labels_.issue_ns)

    def close_compute(self, event: int, error: str) -> None:
        """A computation ended."""
        begun = self._writer.begun(event)
        if begun is None:
            return
        if (faults := faulty.installed()) is not None:
            seconds = (self.now_ns() - begun.start_ns) / 1e9
            faults.computed(begun.position, begun.template.unit, seconds)
        if self._memory is not None and begun.template.phase is not Phase.UPDATE:
            self._memory.computes("")
        work = () if self._dry is None else self._dry.take_work()
        self._writer.end(event, error, work=work)

    def recomputed(self, event: int) -> None:
        """A unit's activations were recomputed, within its backward."""
        begun = self._writer.begun(event)
        if self._memory is not None and begun is not None:
            self._memory.look(begun.position, Moment.RECOMPUTED, event)

    def open_collective(self, labels_: Labels, request: CollectiveRequest) -> int | None:
        """A collective of our own begins."""
        sequence = self._writer.next_sequence(request.group)
        if gate.is_closed:
            ranks = self._writer.ranks_of(request.group)
            gate.stop(_stand(Kind.COLLECTIVE, labels_, request, sequence=sequence, ranks=ranks))
        if not self._takes(labels_):
            return None
        shared = Shared(
            labels_.purpose,
            op=request.op,
            algorithm=request.algorithm,
            group=request.group,
            peers=request.peers,
            dtype=request.dtype,
            elements=request.elements,
            payload_bytes=request.payload_bytes,
        )
        position = labels_.position or labels.position()
        return self._writer.begin(
            self._writer.template(labels_, position.phase, Kind.COLLECTIVE, shared),
            position,
            issue_ns=labels_.issue_ns,
            sequence=sequence,
            counts_messages=True,
            reads_wire=True,
        )

    def checks(self, event: int, buffer: Any, *, is_over: bool) -> None:
        """A collective of our own works in this buffer: it begins or has ended."""
        begun = self._writer.begun(event)
        if self._checksums is None or begun is None:
            return
        op, unit, position = begun.template.op, begun.template.unit, begun.position
        tensors = [] if buffer is None else [buffer]
        if is_over:
            self._checksums.awaits(op, event, position, unit, tensors)
            self._checksums.waited(event, has_failed=False)
        else:
            self._checksums.given(op, event, position, unit, tensors)

    def setting(self, name: str, value: float) -> None:
        """An option of a rank, which should be equal on all."""
        iteration = labels.position().iteration
        if self._extent.checks(max(0, iteration)):
            self.metric(max(0, iteration), name, value)

    def open_copy(self, labels_: Labels, request: CopyRequest) -> int | None:
        """A copy between two tiers of this rank begins."""
        if gate.is_closed:
            gate.stop(_stand(Kind.COPY, labels_, request))
        if not self._takes(labels_):
            return None
        shared = Shared(
            labels_.purpose,
            dtype=request.dtype,
            elements=request.elements,
            payload_bytes=request.payload_bytes,
            origin=request.origin,
            target=request.target,
        )
        position = labels_.position or labels.position()
        template = self._writer.template(labels_, position.phase, Kind.COPY, shared)
        return self._writer.begin(template, position, issue_ns=labels_.issue_ns)

    def posts(self, hop: int, way: int) -> None:
        """This thread is about to post the messages of a round of its ring."""
        if gate.is_closed:
            gate.stop_before_hop(hop, self._rank, way)

    def close(self, event: int, error: str, counted_bytes: int | None = None) -> None:
        """A copy, or a collective of our own, ended."""
        begun = self._writer.begun(event)
        if begun is not None:
            reads_wire = begun.template.kind is Kind.COLLECTIVE
            self._writer.end(event, error, reads_wire=reads_wire, counted_bytes=counted_bytes)

    def waited(self, labels_: Labels, collective: int, since_ns: int) -> None:
        """A thread waited until now for a collective or a copy."""
        if not self._is_light:
            self._writer.write_wait(labels_, collective, since_ns)

    def label_with(self, labeler: Labeler | None) -> None:
        """Let this labeler infer missing labels; None for no inference."""
        self.calls.labeler = labeler
        if self._memory is not None:
            self._memory.labeler = labeler
        if self._checksums is not None:
            self._checksums.labeler = labeler

    def stalled(self, since_ns: int) -> None:
        """Since then, this thread has only waited for the last call that it began."""
        event = labels.last_collective()
        if event is not None and not self._is_light:
            until_ns = max(since_ns, self._writer.quiet_since_ns(event))
            self._writer.write_wait(labels.current(), event, since_ns, until_ns)

    def strategy(self, strategy: Strategy) -> None:
        """The program partitions its training in this way from now on."""
        self._writer.rows.write("strategy", strategy)

    def finish_transfer(self, transfer: int) -> None:
        """A message of a collective ended."""
        self.calls.messages.finish(transfer, self.now_ns())
        if self._checksums is not None:
            self._checksums.waited(transfer, has_failed=False)

    def metric(self, iteration: int, name: str, value: float) -> None:
        """The program reports a number."""
        if not self._extent.takes(iteration):
            return
        if dry.installed() is not None:
            value = math.nan  # the metric exists, but has no known value
        record = Metric(iteration=iteration, name=name, value=value, time_ns=self.now_ns())
        self._writer.rows.write("metric", record)

    def failure(self, message: str, *, peer_lost: bool, source: str = "") -> None:
        """Record the failure of this rank, and its position."""
        begun = self._writer.all_begun()
        waiting = [each for each in begun if each.template.kind is Kind.COLLECTIVE]
        last = self._writer.failed or (waiting[0] if waiting else None)
        here = last.position if last else labels.position()
        what = last.template if last else None
        self._writer.rows.write(
            "failure",
            Failure(
                message=message,
                iteration=here.iteration,
                phase=here.phase,
                unit=what.unit if what else "",
                op=what.op if what else None,
                purpose=what.purpose if what else None,
                waiting_for=what.peers if what else (),
                peer_lost=peer_lost,
                time_ns=self.now_ns(),
                source=source,
            ),
        )

    @property
    def num_bytes(self) -> int:
        """Bytes of rows written to the current file."""
        return self._writer.rows.num_bytes

    def stands_still(self, found: Standstill) -> None:
        """This rank has written nothing for some time."""
        self._writer.rows.write("standstill", found)

    def tear(self) -> None:
        """Leave half a row at the end of the file, as an injected fault."""
        rows = self._writer.rows
        if isinstance(rows, RowFile):
            rows.tear()

    def finish(self) -> None:
        """Write the last row and close the file; later calls write nothing."""
        self._count_interfaces()
        if self._memory is not None:
            memory, self._memory = self._memory, None
            memory.close()
        self.calls.finish()
        self._writer.close()

    def _takes(self, labels_: Labels) -> bool:
        """Whether the iteration of these labels is recorded."""
        position = labels_.position or labels.position()
        return self._extent.takes(position.iteration)

    def _count_interfaces(self) -> None:
        for sample in read_interfaces(self.now_ns()) if self._counts_interfaces else ():
            self._writer.rows.write("interface", sample)


def _stand(
    kind: Kind, labels_: Labels, request: CollectiveRequest | CopyRequest | None = None, **more: Any
) -> Stand:
    """A thread's next event, for the gate."""
    position = labels_.position or labels.position()
    if isinstance(request, CollectiveRequest):
        more |= {"op": request.op, "group": request.group}
    return Stand(
        kind=kind,
        iteration=position.iteration,
        micro_step=position.micro_step,
        phase=position.phase,
        unit="" if kind is Kind.MARK else labels_.unit,
        purpose=None if request is None else labels_.purpose,
        payload_bytes=0 if request is None else request.payload_bytes,
        source=labels_.source,
        **more,
    )
