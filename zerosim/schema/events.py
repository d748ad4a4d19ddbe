"""The vocabulary of a trace: closed sets as enums, records as frozen dataclasses.

A rank writes rows, one JSON object per line, in the order of the events:

    header                       rank, process and host; always the first row
    group, socket                records that later rows refer to by name or index
    template                     the constant fields of recurring events, written once
    begin ... close              an event with a duration: a computation, a collective
    happened                     an event that is complete in one row: a wait
    transfer                     one message of a collective, when it has ended
    wire                         the kernel's counters at a phase border
    interface                    its counters of a network interface, in a run on several nodes
    memory, allocations          live tensors, by role; the counters of PyTorch's allocator
    strategy                     how the program partitions training (`zerosim.schema.strategies`)
    metric                       a number that the program reported: loss, gradient norm
    standstill                   no row for some seconds: the stack of the program
    checksum                     a checksum of its tensors (`--check-replicas`)
    failure                      the error with which this rank failed
    end                          always the last row of a run that closed its trace

Every row carries a checksum chained to the row before it (`zerosim.schema.rows`). A `begin` row
without its `close` shows the rank's activity when it stopped. Schema 1 has no templates: there,
`open` and `event`, which every schema allows, contain a whole event instead of `begin` and
`happened`. Schema 2 has no short rows (`zerosim.schema.shortrows`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zerosim.base.tiers import Tier

SCHEMA_VERSION = 3
"""The version of the row format."""
SCHEMAS_READ = (1, 2, 3)


class Kind(StrEnum):
    """The kind of an event."""

    COMPUTE = "compute"
    """A unit's forward, backward or update."""
    COLLECTIVE = "collective"
    """An operation of a whole group, or a point-to-point call outside of any collective."""
    TRANSFER = "transfer"
    """One message of a collective: a hop of a ring."""
    COPY = "copy"
    """Bytes of this rank move from one of its tiers to another."""
    WAIT = "wait"
    """The program waits until a collective or a copy has ended."""
    MARK = "mark"
    """A moment without a duration."""


class Phase(StrEnum):
    """The part of an iteration; every event belongs to exactly one."""

    SETUP = "setup"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
    OUTSIDE = "outside"
    """Before the first iteration, between two iterations, or after the last."""


STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
"""The phases of an optimizer step: evaluations and checkpoints are not part of it."""


WHOLE = -1
"""In place of an iteration: a program without optimizer steps is treated as a whole."""


class Purpose(StrEnum):
    """The reason for a collective."""

    GATHER_PARAMETERS = "gather parameters"
    REDUCE_GRADIENTS = "reduce gradients"
    GRADIENT_NORM = "gradient norm"
    OVERFLOW_FLAG = "overflow flag"
    AVERAGE_LOSS = "average loss"
    AVERAGE_PARAMETERS = "average parameters"
    """Local SGD: ranks that trained separately synchronize their parameters."""
    COMPUTE_UPDATE = "compute the update"
    """The optimizer needs more of a divided tensor than the rank's own part, as Muon does."""
    BROADCAST_STATE = "broadcast initial state"
    BROADCAST_PARAMETERS = "broadcast parameters"
    """From one rank, after the start: all receive what it changed or trained last."""
    BROADCAST_BUFFERS = "broadcast buffers"
    """Buffers of a module, such as running means."""
    ACTIVATIONS = "activations"
    """Tensor, sequence and expert parallel: activations in forward, their gradients in backward."""
    SEND_ACTIVATIONS = "send activations"
    """Pipeline parallel: to the next stage."""
    SEND_GRADIENTS = "send gradients of activations"
    """Pipeline parallel: back to the stage before."""
    METADATA = "exchange metadata"
    """Metadata of a framework: shapes, pickled objects, bucket orders."""
    GATHER_ACTIVATIONS = "gather activations"
    """Checkpoints that are divided among the ranks of a tensor-parallel group."""
    OFFLOAD_ACTIVATIONS = "offload activations"
    FETCH_ACTIVATIONS = "fetch activations"
    OFFLOAD_GRADIENTS = "offload gradients"
    RETURN_PARAMETERS = "return parameters"
    """Updated parameters, from where the optimizer works to the device."""
    FETCH_PARAMETERS = "fetch parameters"
    """A rank's own part, from where it is kept to where it is needed."""
    STORE_PARAMETERS = "store parameters"
    """Updated parameters, to where they are kept."""
    FETCH_STATES = "fetch optimizer states"
    STORE_STATES = "store optimizer states"
    SYNCHRONIZE = "synchronize"
    """A barrier."""
    UNLABELLED = "unlabelled"
    """Unknown: the call was made outside of any label."""


OF_MICRO_BATCHES = (Purpose.SEND_ACTIVATIONS, Purpose.SEND_GRADIENTS)
"""Purposes of pipeline messages: both ends record iteration and micro-batch."""


class Op(StrEnum):
    """The operation of a collective or message."""

    ALL_REDUCE = "all-reduce"
    REDUCE_SCATTER = "reduce-scatter"
    ALL_GATHER = "all-gather"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    ALL_TO_ALL = "all-to-all"
    SEND = "send"
    RECEIVE = "receive"
    BARRIER = "barrier"
    UNKNOWN = "unknown"
    """An operator that zerosim does not know: `Event.operator` names it."""


class Algorithm(StrEnum):
    """The implementation of a collective, which determines the bytes that a rank sends."""

    RING = "ring"
    """zerosim's own ring over send and receive; each hop is an event."""
    PAIRWISE = "pairwise"
    """zerosim's own messages between each pair of ranks; each is an event."""
    GLOO = "gloo"
    """The native call of PyTorch's Gloo backend."""
    NCCL = "nccl"
    """The native call of PyTorch's NCCL backend."""
    OTHER = "other"
    """A native collective of a backend; zerosim does not know its algorithm."""


@dataclass(frozen=True, slots=True)
class WireDelta:
    """Bytes that one socket moved during one collective.

    Attributes:
        socket: index of a `Socket` row of the same rank.
        sent_bytes: bytes handed to the kernel, less retransmissions.
        received_bytes: bytes that the kernel received.
    """

    socket: int
    sent_bytes: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """The calls of one operator by a computation, as counted by a dry run.

    Attributes:
        operator: PyTorch's name for it, such as "mm".
        calls: number of calls with the same work.
        flops: floating-point operations of one call; a multiplication and an addition are two.
        touched_bytes: bytes that one call reads and writes: its tensors, each once.
    """

    operator: str
    calls: int
    flops: int
    touched_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event on one rank.

    Attributes:
        id: unique on its rank, increasing in the order of issue.
        parent: id of the collective that a transfer belongs to, or of the event that a wait waits
            for; else None.
        rank: global rank.
        iteration: optimizer step, counted from 0; -1 before the first.
        micro_step: position within a gradient accumulation, counted from 0.
        unit: the module or bucket that communicates or computes; "" if unknown.
        purpose: the reason for a collective, transfer or copy; None for other kinds.
        op: the operation of the group; None for computations, copies and marks.
        operator: PyTorch's name for an operator with unknown payload, because zerosim does not know
            it or an imported profile does not record its size; else "".
        algorithm: its implementation; None if `op` is.
        group: name of a `Group` row; "" if `op` is None.
        sequence: position among the collectives of that group on this rank.
        peers: global ranks with which this rank exchanges bytes directly, if known; for a native
            call with a root, the root. For a receive from any rank, the sender, which is known
            after the wait; empty without a wait.
        dtype: element type as named by PyTorch ("bfloat16"); "" if there is none.
        elements: number of elements of the payload.
        payload_bytes: size of the whole buffer: the output of an all-gather, the input of a
            reduce-scatter, the message of a transfer, the bytes of a copy. For quantized elements,
            including their scales.
        parts: elements of each piece of a native call's payload, if it is not one equal part per
            rank: for an all-to-all, the part sent to each rank of the group; for a reduce-scatter,
            the tensors that are reduced separately; else empty.
        received_parts: for an all-to-all with `parts`, the elements received from each rank.
        sent_bytes: bytes that the program requested this rank to send, summed over the
            intercepted messages; None for a native collective, whose algorithm cannot be
            intercepted.
        received_bytes: the same for received bytes.
        wire: the kernel's byte counts per socket during this collective; empty if not measured.
        issue_ns: time of the program's request, on the rank's clock.
        start_ns: time at which it began; None if it did not begin.
        end_ns: time at which it ended; None if it never ended or its end was not observed.
        source: "file.py:41 in function" of the caller's code; "" if unknown.
        functions: for a collective or copy, the stack frames of DeepSpeed or of zerosim's engine
            between `source` and the call, outermost first, in the same format.
        tensors: names of the parameters or buffers concerned.
        hop: position of a transfer in its ring, counted from 0.
        shard: index of the shard that a transfer carries (its owner's position in the group).
        origin, target: source and destination tier of a copy; else None.
        counted_bytes: for a copy from or to a disk, the kernel's count for the copying thread
            (`/proc/self/task/TID/io`: `rchar` or `wchar`); None if not measured.
        work: for a computation of a dry run, the calls of each operator; else empty.
        error: the reason for its failure; "" if it succeeded.
        device_begin_ns, device_end_ns: start and end of its execution on the device, on the rank's
            clock; for a wait, when its stream reached it and when it continued. None on a CPU, and
            if not recorded.
    """

    id: int
    parent: int | None = None
    rank: int
    kind: Kind
    iteration: int
    micro_step: int = 0
    phase: Phase
    unit: str = ""
    purpose: Purpose | None = None
    op: Op | None = None
    operator: str = ""
    algorithm: Algorithm | None = None
    group: str = ""
    sequence: int | None = None
    peers: tuple[int, ...] = ()
    dtype: str = ""
    elements: int = 0
    payload_bytes: int = 0
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()
    sent_bytes: int | None = None
    received_bytes: int | None = None
    wire: tuple[WireDelta, ...] = ()
    issue_ns: int
    start_ns: int | None = None
    end_ns: int | None = None
    source: str = ""
    functions: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    hop: int | None = None
    shard: int | None = None
    origin: Tier | None = None
    target: Tier | None = None
    counted_bytes: int | None = None
    work: tuple[OperatorWork, ...] = ()
    error: str = ""
    device_begin_ns: int | None = None
    device_end_ns: int | None = None

    @property
    def flops(self) -> int:
        """Floating-point operations of all its operators; 0 if they were not counted."""
        return sum(one.calls * one.flops for one in self.work)

    @property
    def touched_bytes(self) -> int:
        """Bytes read and written, summed over all its operators; 0 if they were not counted."""
        return sum(one.calls * one.touched_bytes for one in self.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """The constant fields of an event that recurs in every step of a rank.

    Attributes: as in `Event`, except for
        number: the number by which rows refer to it.
    """

    number: int
    kind: Kind
    phase: Phase
    unit: str = ""
    purpose: Purpose | None = None
    op: Op | None = None
    operator: str = ""
    algorithm: Algorithm | None = None
    group: str = ""
    peers: tuple[int, ...] = ()
    dtype: str = ""
    elements: int = 0
    payload_bytes: int = 0
    parts: tuple[int, ...] = ()
    received_parts: tuple[int, ...] = ()
    source: str = ""
    functions: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    origin: Tier | None = None
    target: Tier | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One occurrence of a template's event; a reader combines both into an `Event`.

    Attributes: as in `Event`, except for
        template: number of a `Template` row before it.
    """

    template: int
    id: int
    parent: int | None = None
    iteration: int
    micro_step: int = 0
    sequence: int | None = None
    issue_ns: int
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """The end of an open event: the fields that were not known before.

    Attributes: as in `Event`.
    """

    id: int
    sent_bytes: int | None = None
    received_bytes: int | None = None
    peers: tuple[int, ...] = ()
    wire: tuple[WireDelta, ...] = ()
    start_ns: int | None = None
    end_ns: int | None = None
    counted_bytes: int | None = None
    work: tuple[OperatorWork, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message of a collective; the fields of its collective are not repeated.

    A reader makes an `Event` of it: iteration, phase, unit, purpose, group, algorithm and dtype
    are the parent's.

    Attributes:
        op: `Op.SEND` or `Op.RECEIVE`.
        peer: global rank at the other end.
        end_ns: time at which its end was observed; None if it never was.
    """

    id: int
    parent: int
    op: Op
    peer: int
    elements: int
    payload_bytes: int
    start_ns: int
    end_ns: int | None = None
    hop: int | None = None
    shard: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTime:
    """The execution of an event on a device; known only after the event's end.

    Attributes:
        event: id of the event.
        begin_ns, end_ns: as `device_begin_ns` and `device_end_ns` in `Event`.
    """

    event: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClock:
    """The alignment of a device's clock with the rank's own, once it is known.

    Attributes:
        uncertainty_ns: the largest possible error of the alignment over the whole run.
        num_lost: number of events without device times, because too many were in flight at once.
    """

    uncertainty_ns: int
    num_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first row of a rank's file.

    Attributes:
        schema: `SCHEMA_VERSION` of the writer.
        clock_ns: the rank's clock (monotonic) when the trace began.
        wall_ns: nanoseconds since 1970 at the same moment, to align hosts.
        node: index of its node, as counted by the launcher.
        segment: index of this file among those that the rank of a light trace wrote, one after
            another; 0 for the first.
        follows: checksum of the last row of the previous file; "" for the first.
        since: the iteration with which this file begins; None for the first file, and if it
            begins within an iteration.
    """

    schema: int
    rank: int
    num_ranks: int
    local_rank: int
    host: str
    pid: int
    device: str
    clock_ns: int
    wall_ns: int
    node: int = 0
    segment: int = 0
    follows: str = ""
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A process group, by the name that events use."""

    name: str
    backend: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Socket:
    """A TCP connection of this process; addresses are "ip:port"."""

    index: int
    local: str
    remote: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """Bytes that a connection retransmitted, which `WireDelta.sent_bytes` does not include."""

    socket: int
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSample:
    """The kernel's counters of all sockets at a phase border (totals, not differences).

    Attributes:
        phase: the phase that begins here.
        counters: a `WireDelta` for each socket, counted from the connection's start.
        repeated: bytes retransmitted since its start, for each socket with retransmissions.
        is_quiet: for a device, whether it had executed everything and no call was pending; on a CPU
            the work of a call is complete when the call returns.
    """

    iteration: int
    micro_step: int
    phase: Phase
    time_ns: int
    counters: tuple[WireDelta, ...]
    repeated: tuple[Repeated, ...] = ()
    is_quiet: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfaceSample:
    """The kernel's counters of one network interface (totals since its creation).

    They count whole packets of all processes; `zerosim.trace.interfaces` describes the difference
    from the sockets' own counts.

    Attributes:
        name: "eth0" and the like.
        addresses: its own addresses, in the format of `Socket.local` without the port.
    """

    time_ns: int
    name: str
    sent_bytes: int
    received_bytes: int
    sent_packets: int
    received_packets: int
    addresses: tuple[str, ...] = ()


EVALUATION = "evaluation"
"""The metric with the seconds that a forward without gradients took between two steps, up to the
row's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the program reported, or that was observed in it."""

    iteration: int
    name: str
    value: float
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure of this rank.

    Attributes:
        waiting_for: global ranks that the open collective was waiting for.
        peer_lost: True if the cause is another rank that died or stopped responding.
        source: the program's line below which the error was raised, "train.py:88 in step"; "" if
            unknown.
    """

    message: str
    iteration: int
    phase: Phase
    unit: str
    op: Op | None
    purpose: Purpose | None
    waiting_for: tuple[int, ...]
    peer_lost: bool
    time_ns: int
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A rank without a new row for some time, with the stack of its program.

    Attributes:
        since_ns: time of its last row.
        time_ns: time of this sample.
        stack: frames of the computing thread, "train.py:88 in step", innermost first, without those
            of frameworks and of the tracer.
        call: id of the first call that has not completed; None if there is none.
    """

    since_ns: int
    time_ns: int
    stack: tuple[str, ...]
    call: int | None = None


class Held(StrEnum):
    """The tensor of a checksum."""

    GIVEN = "given"
    """The input of a call."""
    RESULT = "result"
    """The output of a call."""
    STATE = "state"
    """The rank's state of a role for a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """The checksum of tensors on a rank at one moment: equal tensors have equal checksums.

    Attributes:
        held: the kind of the tensors.
        iteration, phase: position of the rank; for a state, the phase that began.
        unit: unit of the tensors.
        role: role of a state ("parameters"); else "".
        event: id of the call or message, for its input or output; else None.
        digest: the CRC-32 of the bytes; for several tensors, the sum modulo 2^32.
        largest: the largest absolute value of floating-point elements; nan or inf if an element is
            not finite; None if not computed.
    """

    held: Held
    iteration: int
    phase: Phase
    unit: str = ""
    role: str = ""
    event: int | None = None
    digest: int
    largest: float | None = None
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The last row of a trace that was closed properly."""

    time_ns: int
    num_rows: int
