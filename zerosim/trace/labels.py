"""What a program says about itself while it runs: where it is, for whom, and why.

The engine, or anyone, pushes labels; a recorder (the sink) attaches them to what it sees. Without
a sink every call here is a few attribute reads. Labels never decide what is recorded: the
operators that PyTorch performs are intercepted in `dispatch`.

    enter(position)              the whole process moves to another phase
    with scope(unit=...)         this thread now works for that unit
    with collective(...)         the messages inside are hops of one collective of our own
    with exclusive()             the native collective inside has the sockets for itself
    begin_compute / end          a unit computes

Imports the standard library, `zerosim.events`, and no torch.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from zerosim.events import Algorithm, BucketLayout, Op, Phase, Purpose, UnitLayout


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the training a process is."""

    iteration: int = -1
    micro_step: int = 0
    phase: Phase = Phase.OUTSIDE


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known about the work of one thread at one moment.

    Attributes:
        position: None on a thread that follows the process.
        issue_ns: when the work was asked for, if that was earlier, on another thread.
    """

    position: Position | None = None
    unit: str = ""
    purpose: Purpose = Purpose.UNLABELLED
    tensors: tuple[str, ...] = ()
    source: str = ""
    issue_ns: int | None = None


@dataclass(frozen=True, slots=True)
class CollectiveRequest:
    """What one of our own collectives was asked for.

    Attributes:
        group: the name of the process group.
        peers: global ranks that this rank exchanges messages with.
    """

    op: Op
    algorithm: Algorithm
    group: str
    peers: tuple[int, ...]
    dtype: str
    elements: int
    payload_bytes: int


@dataclass(frozen=True, slots=True)
class Description:
    """What an engine says of itself for the manifest.

    Attributes:
        config: the engine's configuration as plain values.
    """

    config: dict[str, object] = field(default_factory=dict)
    units: tuple[UnitLayout, ...] = ()
    buckets: tuple[BucketLayout, ...] = ()


class Sink(Protocol):
    """What a recorder offers to the labels."""

    def described(self, description: Description) -> None:
        """An engine said what it is."""
        ...

    def now_ns(self) -> int:
        """The time on the recorder's clock."""
        ...

    def entered(self, position: Position) -> None:
        """The process entered a phase."""
        ...

    def open_compute(self, labels: Labels) -> int:
        """A computation begins; returns the event's id."""
        ...

    def open_collective(self, labels: Labels, request: CollectiveRequest) -> int:
        """A collective of our own begins; returns the event's id."""
        ...

    def close(self, event: int, error: str) -> None:
        """The event is over; `error` is "" if it succeeded."""
        ...

    def begin_exclusive(self) -> None:
        """From now on this thread's native collectives have the sockets for themselves."""
        ...

    def end_exclusive(self, error: str) -> None:
        """The collectives seen since `begin_exclusive` are over."""
        ...

    def finish_transfer(self, transfer: int) -> None:
        """The message is over."""
        ...

    def metric(self, iteration: int, name: str, value: float) -> None:
        """The program reports a number."""
        ...


class Hop:
    """The messages that one step of a ring posted, in the order of posting."""

    __slots__ = ("index", "receives", "sends", "transfers")

    def __init__(self, index: int, sends: int | None, receives: int | None) -> None:
        self.index = index
        self.sends = sends
        self.receives = receives
        self.transfers: dict[Op, int] = {}

    def finish(self, op: Op) -> None:
        """Say that the message sent (`Op.SEND`) or received (`Op.RECEIVE`) is over."""
        transfer = self.transfers.pop(op, None)
        if transfer is not None and _state.sink is not None:
            _state.sink.finish_transfer(transfer)


class _State:
    """The process-wide part: one sink at most, one position."""

    __slots__ = ("description", "position", "sink")

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.position = Position()
        self.description = Description()


class _ThreadState(threading.local):
    labels = Labels()
    collective: int | None = None
    hop: Hop | None = None


_state = _State()
_thread = _ThreadState()
_OWN_FOLDERS = ("/zerosim/trace/", "/zerosim/engine/", "/zerosim/collectives/", "/torch/")


def attach(sink: Sink | None) -> None:
    """Make `sink` the one that hears of labels; None detaches."""
    _state.sink = sink


def attached() -> Sink | None:
    """The sink that hears of labels, if any."""
    return _state.sink


def describe(description: Description) -> None:
    """Say what the engine of this process is."""
    _state.description = description
    if _state.sink is not None:
        _state.sink.described(description)


def description() -> Description:
    """What the engine of this process said it is."""
    return _state.description


def position() -> Position:
    """Where this thread's work belongs."""
    return _thread.labels.position or _state.position


def enter(iteration: int, phase: Phase, micro_step: int = 0) -> None:
    """Move the whole process to a phase of an iteration."""
    new = Position(iteration, micro_step, phase)
    if new != _state.position:
        _state.position = new
        if _state.sink is not None:
            _state.sink.entered(new)


def current() -> Labels:
    """This thread's labels, with its position filled in."""
    return replace(_thread.labels, position=position())


def snapshot() -> Labels:
    """This thread's labels with time and source line, for work that another thread will do."""
    sink = _state.sink
    if sink is None:
        return current()
    mine = _thread.labels
    return replace(
        mine,
        position=position(),
        issue_ns=sink.now_ns() if mine.issue_ns is None else mine.issue_ns,
        source=mine.source or caller(),
    )


@contextmanager
def restored(labels: Labels) -> Iterator[None]:
    """Work under labels taken by `snapshot`."""
    before = _thread.labels
    _thread.labels = labels
    try:
        yield
    finally:
        _thread.labels = before


@contextmanager
def scope(
    *, unit: str | None = None, purpose: Purpose | None = None, tensors: tuple[str, ...] = ()
) -> Iterator[None]:
    """Label what this thread does inside; what is not given stays as it was."""
    before = _thread.labels
    _thread.labels = replace(
        before,
        unit=before.unit if unit is None else unit,
        purpose=before.purpose if purpose is None else purpose,
        tensors=tensors or before.tensors,
    )
    try:
        yield
    finally:
        _thread.labels = before


def begin_compute(unit: str) -> int | None:
    """A unit begins to compute; pass what is returned to `end`."""
    if _state.sink is None:
        return None
    return _state.sink.open_compute(replace(_thread.labels, position=position(), unit=unit))


def end(event: int | None, error: str = "") -> None:
    """What `begin_compute` began is over."""
    if event is not None and _state.sink is not None:
        _state.sink.close(event, error)


@contextmanager
def compute(unit: str) -> Iterator[None]:
    """A unit computes inside."""
    event = begin_compute(unit)
    try:
        yield
    except BaseException as error:
        end(event, repr(error))
        raise
    end(event)


@contextmanager
def collective(request: CollectiveRequest) -> Iterator[None]:
    """The messages inside are the hops of one collective of our own."""
    before = _thread.collective
    sink = _state.sink
    event = sink.open_collective(snapshot(), request) if sink is not None else None
    _thread.collective = event
    error = ""
    try:
        yield
    except BaseException as raised:
        error = _first_line(raised)
        raise
    finally:
        _thread.collective = before
        if event is not None and sink is not None:
            sink.close(event, error)


@contextmanager
def exclusive() -> Iterator[None]:
    """No other collective of this process runs while the native one inside does."""
    sink = _state.sink
    if sink is None:
        yield
        return
    sink.begin_exclusive()
    error = ""
    try:
        yield
    except BaseException as raised:
        error = _first_line(raised)
        raise
    finally:
        sink.end_exclusive(error)


@contextmanager
def hop(index: int, sends: int | None, receives: int | None) -> Iterator[Hop]:
    """The messages posted inside carry these shards in this hop of the open collective."""
    before = _thread.hop
    _thread.hop = posted = Hop(index, sends, receives)
    try:
        yield posted
    finally:
        _thread.hop = before


def open_collective() -> int | None:
    """The id of the collective that this thread's messages belong to, if any."""
    return _thread.collective


def open_hop() -> Hop | None:
    """The hop that this thread is posting, if any."""
    return _thread.hop


def metric(name: str, value: float) -> None:
    """Report a number of the current iteration: a loss, a norm, a scale."""
    if _state.sink is not None:
        _state.sink.metric(position().iteration, name, value)


def caller() -> str:
    """The innermost line that belongs neither to torch nor to the machinery here."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not any(part in name for part in _OWN_FOLDERS) and not name.startswith("<"):
            short = "/".join(name.rsplit("/", 2)[-2:])
            return f"{short}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        if frame.f_back is None:
            return ""
        frame = frame.f_back
    return ""


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
