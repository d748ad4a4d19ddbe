"""The recorder of one rank: what was intercepted and what was labelled, as rows in a file.

Each row is written when it is known and handed to the kernel at once, so that what happened before
a crash is on disk. Imports torch and zerosim's L0.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zerosim.events import Failure, Header, Kind, Metric, Phase, WireSample
from zerosim.memory import Moment
from zerosim.rows import rank_file_name
from zerosim.strategies import Strategy
from zerosim.trace import labels, threads
from zerosim.trace.calls import Calls
from zerosim.trace.clock import Clock
from zerosim.trace.interfaces import read_interfaces, spans_nodes
from zerosim.trace.labeler import Labeler
from zerosim.trace.ledger import MemoryLedger
from zerosim.trace.rowfile import RowFile
from zerosim.trace.sink import CollectiveRequest, CopyRequest, Description, Labels, Position
from zerosim.trace.wire import Connections
from zerosim.trace.writer import EventWriter


class Recorder:
    """Writes down what one process says and does. Implements `sink.Sink`.

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
        *,
        memory: bool = False,
        allocations: bool = False,
    ) -> None:
        """Open the rank's file and write its header.

        Args:
            folder: where the trace lives; it must exist.
            wire: the process's connections; None if they are not to be measured.
            on_description: told what the engine says of itself.
            memory: look at what is alive, at each event.
            allocations: keep PyTorch's record of CPU allocations beside it.

        Raises:
            EnvironmentFault: the file exists or cannot be created.
        """
        threads.began()
        rows = RowFile(folder / rank_file_name(header.rank))
        on_cpu = header.device == "cpu"
        self._memory = (
            MemoryLedger(
                rows.write,
                clock.now_ns,
                on_cuda=not on_cpu,
                counts_allocations=allocations and on_cpu,
            )
            if memory
            else None
        )
        self._counts_interfaces = wire is not None and spans_nodes()
        self._counted_iteration: int | None = None
        self._writer = EventWriter(
            header.rank, rows, clock, wire, self._memory, is_synchronous=on_cpu
        )
        self.calls = Calls(self._writer)
        self.described = on_description
        self.now_ns = self._writer.now_ns
        self.begin_exclusive = self.calls.begin_exclusive
        self.end_exclusive = self.calls.end_exclusive
        rows.write("header", header)
        self._writer.scan()

    def entered(self, position: Position) -> None:
        """The process entered a phase: read all counters."""
        threads.entered(position.phase)
        self.calls.release_works()
        self._writer.scan(wholly=position.phase not in (Phase.BACKWARD, Phase.UPDATE))
        counters = self._writer.counters()
        if counters is not None:
            sample = WireSample(
                iteration=position.iteration,
                micro_step=position.micro_step,
                phase=position.phase,
                time_ns=self.now_ns(),
                counters=counters,
                repeated=self._writer.repeated(),
            )
            self._writer.rows.write("wire", sample)
        if position.iteration != self._counted_iteration:
            self._counted_iteration = position.iteration
            self._count_interfaces()
        if self._memory is not None:
            self._memory.look(Moment.PHASE, None, position)

    def open_compute(self, labels_: Labels) -> int:
        """A computation begins."""
        self.calls.release_works()
        if self._memory is not None and _saves(labels_.position):
            self._memory.computes(labels_.unit)
        return self._writer.begin(self._writer.make_event(labels_, Kind.COMPUTE))

    def open_collective(self, labels_: Labels, request: CollectiveRequest) -> int:
        """A collective of our own begins."""
        event = self._writer.make_event(
            labels_,
            Kind.COLLECTIVE,
            purpose=labels_.purpose,
            op=request.op,
            algorithm=request.algorithm,
            group=request.group,
            sequence=self._writer.next_sequence(request.group),
            peers=request.peers,
            dtype=request.dtype,
            elements=request.elements,
            payload_bytes=request.payload_bytes,
        )
        return self._writer.begin(event, counts_messages=True, reads_wire=True)

    def open_copy(self, labels_: Labels, request: CopyRequest) -> int:
        """A copy between two tiers of this rank begins."""
        event = self._writer.make_event(
            labels_,
            Kind.COPY,
            purpose=labels_.purpose,
            dtype=request.dtype,
            elements=request.elements,
            payload_bytes=request.payload_bytes,
            origin=request.origin,
            target=request.target,
        )
        return self._writer.begin(event)

    def close(self, event: int, error: str, counted_bytes: int | None = None) -> None:
        """A computation, a copy, or a collective of our own is over."""
        begun = self._writer.begun(event)
        if begun is not None:
            kind = begun.event.kind
            is_saving = kind is Kind.COMPUTE and begun.event.phase is not Phase.UPDATE
            if self._memory is not None and is_saving:
                self._memory.computes("")
            reads_wire = kind is Kind.COLLECTIVE
            self._writer.end(event, error, reads_wire=reads_wire, counted_bytes=counted_bytes)

    def waited(self, labels_: Labels, collective: int, since_ns: int) -> None:
        """A thread waited until now for a collective or a copy."""
        self._writer.write_wait(labels_, collective, since_ns)

    def label_with(self, labeler: Labeler | None) -> None:
        """Ask this labeler what nobody has said; None for nobody."""
        self.calls.labeler = labeler
        if self._memory is not None:
            self._memory.labeler = labeler

    def stalled(self, since_ns: int) -> None:
        """This thread did nothing since then but wait for the last call that it began."""
        event = labels.last_collective()
        if event is not None:
            until_ns = max(since_ns, self._writer.quiet_since_ns(event))
            self._writer.write_wait(labels.current(), event, since_ns, until_ns)

    def strategy(self, strategy: Strategy) -> None:
        """The program divides its training in this way from now on."""
        self._writer.rows.write("strategy", strategy)

    def finish_transfer(self, transfer: int) -> None:
        """A message of a collective is over."""
        self.calls.messages.finish(transfer, self.now_ns())

    def metric(self, iteration: int, name: str, value: float) -> None:
        """The program reports a number."""
        record = Metric(iteration=iteration, name=name, value=value, time_ns=self.now_ns())
        self._writer.rows.write("metric", record)

    def failure(self, message: str, *, peer_lost: bool) -> None:
        """Write down why this rank cannot go on, and in what it was."""
        open_events = [begun.event for begun in self._writer.all_begun()]
        waiting = [event for event in open_events if event.kind is Kind.COLLECTIVE]
        last = self._writer.failed or (waiting[0] if waiting else None)
        here = labels.position()
        self._writer.rows.write(
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
        self._count_interfaces()
        if self._memory is not None:
            memory, self._memory = self._memory, None
            memory.close()
        self.calls.finish()
        self._writer.close()

    def _count_interfaces(self) -> None:
        for sample in read_interfaces(self.now_ns()) if self._counts_interfaces else ():
            self._writer.rows.write("interface", sample)


def _saves(position: Position | None) -> bool:
    """Whether autograd may save something: an update does not, and may run beside a forward."""
    return position is None or position.phase is not Phase.UPDATE
