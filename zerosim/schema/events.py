"""The vocabulary of a trace: closed sets as enums, records as frozen dataclasses.

A rank writes rows, one JSON object a line, in the order in which things happened:

    header                       who this rank is; always the first row
    group, socket                what later rows refer to by name or index
    template                     what recurs, each step with other numbers: said once
    begin ... close              something that takes time: a computation, a collective
    happened                     something that is over and stands alone: a wait
    transfer                     one message of a collective, when it is over
    wire                         the kernel's counters at a phase border
    interface                    its counters of a network interface, of a run over several nodes
    memory, allocations          what is alive, by role; what PyTorch's allocator counted
    strategy                     how the program divides its training (`zerosim.schema.strategies`)
    metric                       a number that the program reported: loss, gradient norm
    standstill                   it has written nothing for some seconds: where its program is
    checksum                     what it held, in a number (`--check-replicas`)
    failure                      this rank could not go on
    end                          always the last row of a run that closed its trace

Every row carries a checksum chained to the row before it (`zerosim.schema.rows`). A `begin` row
without its `close` is what the rank was doing when it stopped. Schema 1 knows no templates: there
`open` and `event`, which any schema may hold, say all of an event in place of `begin` and
`happened`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zerosim.base.tiers import Tier

SCHEMA_VERSION = 2
"""What is written."""
SCHEMAS_READ = (1, 2)


class Kind(StrEnum):
    """What sort of thing an event is."""

    COMPUTE = "compute"
    """A unit's forward, backward or update."""
    COLLECTIVE = "collective"
    """An operation of a whole group, or a point-to-point call outside of any collective."""
    TRANSFER = "transfer"
    """One message of a collective: a hop of a ring."""
    COPY = "copy"
    """Bytes of this rank on their way from one of its tiers to another."""
    WAIT = "wait"
    """The program waits until a collective or a copy is over."""
    MARK = "mark"
    """A moment without a duration."""


class Phase(StrEnum):
    """The part of an iteration; every event belongs to exactly one."""

    SETUP = "setup"
    FORWARD = "forward"
    BACKWARD = "backward"
    UPDATE = "update"
    OUTSIDE = "outside"
    """Before the first iteration, between two, or after the last."""


STEP_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
"""What belongs to an optimizer step: an evaluation or a checkpoint does not."""


WHOLE = -1
"""In place of an iteration: a program without an optimizer's step is taken as a whole."""


class Purpose(StrEnum):
    """Why a collective is called."""

    GATHER_PARAMETERS = "gather parameters"
    REDUCE_GRADIENTS = "reduce gradients"
    GRADIENT_NORM = "gradient norm"
    OVERFLOW_FLAG = "overflow flag"
    AVERAGE_LOSS = "average loss"
    AVERAGE_PARAMETERS = "average parameters"
    """Local SGD: ranks that trained apart agree again."""
    COMPUTE_UPDATE = "compute the update"
    """An optimizer that needs more of a divided tensor than its own part, as Muon does."""
    BROADCAST_STATE = "broadcast initial state"
    BROADCAST_BUFFERS = "broadcast buffers"
    """What a module keeps beside its parameters: running means and the like."""
    ACTIVATIONS = "activations"
    """Tensor, sequence and expert parallel: activations in forward, their gradients in backward."""
    SEND_ACTIVATIONS = "send activations"
    """Pipeline parallel: to the next stage."""
    SEND_GRADIENTS = "send gradients of activations"
    """Pipeline parallel: back to the stage before."""
    METADATA = "exchange metadata"
    """Shapes, pickled objects, bucket orders: what a framework agrees on."""
    GATHER_ACTIVATIONS = "gather activations"
    """Checkpoints that are divided among the ranks of a tensor parallel group."""
    OFFLOAD_ACTIVATIONS = "offload activations"
    FETCH_ACTIVATIONS = "fetch activations"
    OFFLOAD_GRADIENTS = "offload gradients"
    RETURN_PARAMETERS = "return parameters"
    """Updated ones, from where the optimizer works to the device."""
    FETCH_PARAMETERS = "fetch parameters"
    """A rank's own part, from where it is kept to where it is needed."""
    STORE_PARAMETERS = "store parameters"
    """Updated ones, to where they are kept."""
    FETCH_STATES = "fetch optimizer states"
    STORE_STATES = "store optimizer states"
    SYNCHRONIZE = "synchronize"
    """A barrier."""
    UNLABELLED = "unlabelled"
    """Nobody said why: what a program asked for outside of any label."""


OF_MICRO_BATCHES = (Purpose.SEND_ACTIVATIONS, Purpose.SEND_GRADIENTS)
"""Of a pipeline's messages, of which both ends know iteration and micro-batch."""


class Op(StrEnum):
    """What the group was asked to do."""

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
    """Who carries a collective out, hence what a rank sends for it."""

    RING = "ring"
    """zerosim's own ring over send and receive; each hop is an event."""
    PAIRWISE = "pairwise"
    """zerosim's own messages between each two ranks; each is an event."""
    GLOO = "gloo"
    """The native call of PyTorch's Gloo backend."""
    NCCL = "nccl"
    """The native call of PyTorch's NCCL backend."""
    OTHER = "other"
    """The native call of a backend whose algorithm is not known to zerosim."""


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
    """What a computation asked of one operator, of a dry run, which counts it.

    Attributes:
        operator: PyTorch's name of it: "mm".
        calls: how often, with as much to do each time.
        flops: floating point operations of one call; a multiplication and an addition are two.
        touched_bytes: what one call reads and writes: its tensors, each once.
    """

    operator: str
    calls: int
    flops: int
    touched_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened on one rank.

    Attributes:
        id: unique on its rank, increasing in the order of issue.
        parent: id of the collective that a transfer belongs to, or of what a wait waits for; else
            None.
        rank: global rank.
        iteration: optimizer step, counted from 0; -1 before the first.
        micro_step: position within a gradient accumulation, counted from 0.
        unit: what communicates or computes together: a layer, a bucket; "" if unknown.
        purpose: why, for collectives, transfers and copies; None for the other kinds.
        op: what the group was asked for; None for computations, copies and marks.
        operator: PyTorch's name of an operator whose payload is not known: zerosim does not know
            it, or the source of an imported run does not say how much it was given; else "".
        algorithm: who carries it out; likewise None.
        group: name of a `Group` row; likewise "".
        sequence: position among the collectives of that group on this rank.
        peers: global ranks that this rank exchanges bytes with directly, where that is known; of
            a native call with a root, the root. Of a receive from any rank the one that sent it,
            which is known once it was waited for; empty if it never was.
        dtype: element type as PyTorch names it ("bfloat16"); "" if it has none.
        elements: number of elements of the payload.
        payload_bytes: size of the whole buffer: the output of an all-gather, the input of a
            reduce-scatter, the message of a transfer, the bytes of a copy. Of quantized elements
            with the scales that travel along.
        parts: elements of the pieces that a native call cuts its payload in, where they are not
            one equal part for each rank: of an all-to-all what goes to each rank of the group, of a
            reduce-scatter the tensors that are each reduced by itself; else empty.
        received_parts: of an all-to-all that has `parts`, what comes from each rank.
        sent_bytes: bytes that this rank was asked to send, summed over the intercepted messages;
            None for a native collective, whose algorithm the trace does not see.
        received_bytes: likewise, received.
        wire: what the kernel counted per socket during this collective; empty if not measured.
        issue_ns: when the program asked for it, on the rank's clock.
        start_ns: when it began; None if it had not begun.
        end_ns: when it was over; None if it never ended or could not be seen to end.
        source: "file.py:41 in function" of the caller's code; "" if unknown.
        functions: of a collective or copy, those of DeepSpeed or of zerosim's engine that stand
            between `source` and the call, the outermost first, written likewise.
        tensors: names of the parameters or buffers concerned.
        hop: position of a transfer in its ring, counted from 0.
        shard: index of the shard that a transfer carries (its owner's position in the group).
        origin, target: of a copy, the tiers that it leads from and to; else None.
        counted_bytes: of a copy from or to a disk, what the kernel counted for the thread that
            did it (`/proc/self/task/TID/io`: `rchar` or `wchar`); None if it was not measured.
        work: of a dry run's computation, what it asked of each operator; else empty.
        error: why it failed; "" if it did not.
        device_begin_ns, device_end_ns: when the device began it and was done with it, on the rank's
            clock; of a wait, when its stream came to it and went on. None on a CPU, and where it
            was not recorded.
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
        """Floating point operations of all its operators; 0 where they were not counted."""
        return sum(one.calls * one.flops for one in self.work)

    @property
    def touched_bytes(self) -> int:
        """What all its operators read and write, each for itself; likewise."""
        return sum(one.calls * one.touched_bytes for one in self.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """What events of a rank have in common that recur, in each step with other numbers.

    Attributes: as in `Event`, but for
        number: by which rows refer to it.
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
    """One time that what a template says began, or happened; a reader makes an `Event` of both.

    Attributes: as in `Event`, but for
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
    """The end of an event that was opened: the fields that were not known before.

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
    """One message of a collective; what it shares with its collective is not said again.

    A reader makes an `Event` of it: iteration, phase, unit, purpose, group, algorithm and dtype
    are the parent's.

    Attributes:
        op: `Op.SEND` or `Op.RECEIVE`.
        peer: global rank at the other end.
        end_ns: when it was seen to be over; None if it never was.
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
    """When a device did what an event asked it for; it is known later than the event's end.

    Attributes:
        event: its id.
        begin_ns, end_ns: as `device_begin_ns` and `device_end_ns` in `Event`.
    """

    event: int
    begin_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClock:
    """How well a device's clock is aligned with the rank's own, once it is known.

    Attributes:
        uncertainty_ns: how much the two may differ, from their beginning to the end.
        num_lost: events without device times, because too many were under way at a time.
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
        node: position of its node, as its launcher counts them.
        segment: position of this file among those that the rank wrote, one after another, of a
            light trace; 0 for the first.
        follows: checksum of the last row of the file before; "" for the first.
        since: the iteration that this file begins with; None for the first, and if it begins
            within one.
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
    """Bytes that a connection had to send again, which `WireDelta.sent_bytes` leaves out."""

    socket: int
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSample:
    """The kernel's counters of all sockets at a phase border (totals, not differences).

    Attributes:
        phase: the phase that begins here.
        counters: a `WireDelta` for each socket, counted from the connection's start.
        repeated: of each socket that had to send anything again, how much since its start.
        is_quiet: on a device, whether it had come here, and no call was still under way; a CPU has
            done what it is asked for when a call is over.
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
    """The kernel's counters of one network interface (totals since it exists).

    They count whole packets, of whoever uses it; `zerosim.trace.interfaces` says what of it is
    the sockets' own.

    Attributes:
        name: "eth0" and the like.
        addresses: its own, as they stand in the `local` of a `Socket` before the port.
    """

    time_ns: int
    name: str
    sent_bytes: int
    received_bytes: int
    sent_packets: int
    received_packets: int
    addresses: tuple[str, ...] = ()


EVALUATION = "evaluation"
"""The metric that tells how many seconds a forward without gradients took between two steps, up to
the row's time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that the program reported, or was seen to be told."""

    iteration: int
    name: str
    value: float
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why this rank could not go on.

    Attributes:
        waiting_for: global ranks that the open collective was waiting for.
        peer_lost: True if the cause is another rank that died or fell silent.
        source: the line of the program that it was raised below, "train.py:88 in step"; "" if that
            is not known.
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
    """This rank has written nothing for some time: where its program stands.

    Attributes:
        since_ns: of its last row.
        time_ns: of this look.
        stack: where the thread that computes is, "train.py:88 in step", the innermost line first;
            of what belongs neither to a framework nor to the tracing.
        call: the first call that is not known to be over; None if there is none.
    """

    since_ns: int
    time_ns: int
    stack: tuple[str, ...]
    call: int | None = None


class Held(StrEnum):
    """Of what a checksum is."""

    GIVEN = "given"
    """What a call was given by its rank."""
    RESULT = "result"
    """What the rank got from it."""
    STATE = "state"
    """What the rank keeps of a role for a unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """What a rank held at a moment, in a number: what is equal has equal checksums.

    Attributes:
        held: of what.
        iteration, phase: where the rank was; of a state, the phase that began.
        unit: whose.
        role: of a state, what it is for ("parameters"); else "".
        event: of what a call was given or gave, the call or the message; else None.
        digest: the CRC-32 of the bytes, of several tensors added up (modulo 2^32).
        largest: the largest absolute value, of floating point values; nan or inf if there is one
            that is not finite; None if it was not looked for.
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
    """The last row of a trace that was closed in order."""

    time_ns: int
    num_rows: int
