"""A program's own labels at run time: its position, unit and purpose.

The engine, or any program, sets labels; a recorder (the sink) attaches them to events. Without a
sink, every call here costs a few attribute reads. Labels never decide what is recorded: the
operators that PyTorch performs are intercepted in `intercept`.

    enter(position)              the whole process moves to another phase
    with scope(unit=...)         this thread now works for that unit
    work_for(unit, purpose)      the same, until the surrounding scope ends
    with collective(...)         the messages inside are hops of one collective of our own
    with copying(...)            the copy inside moves bytes from one tier to another
    with exclusive()             the native call inside has the sockets to itself
    begin_compute / end          a unit computes
    with waiting(...)            this thread waits until a collective or a copy ends
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from zerosim.base.errors import first_line
from zerosim.schema.events import Op, Phase, Purpose
from zerosim.trace.sink import CollectiveRequest, CopyRequest, Description, Labels, Position, Sink
from zerosim.trace.source import asked_through


class Hop:
    """The messages that one step of a ring posted, in the order of posting."""

    __slots__ = ("index", "receives", "sends", "transfers")

    def __init__(self, index: int, sends: int | None, receives: int | None) -> None:
        self.index = index
        self.sends = sends
        self.receives = receives
        self.transfers: dict[Op, int] = {}

    def finish(self, op: Op) -> None:
        """Report the end of the message that was sent (`Op.SEND`) or received (`Op.RECEIVE`)."""
        transfer = self.transfers.pop(op, None)
        if transfer is not None and _state.sink is not None:
            _state.sink.finish_transfer(transfer)


class _ProcessState:
    """The process-wide state: at most one sink, and one position."""

    __slots__ = ("description", "position", "sink")

    def __init__(self) -> None:
        self.sink: Sink | None = None
        self.position = Position()
        self.description = Description()


class _ThreadState(threading.local):
    labels = Labels()
    collective: tuple[Sink, int] | None = None
    last_collective: tuple[Sink, int] | None = None
    hop: Hop | None = None
    works_for_others = False
    computing = ""
    computation: int | None = None


_state = _ProcessState()
_thread = _ThreadState()


def attach(sink: Sink | None) -> None:
    """Make `sink` the receiver of labels; None detaches it.

    The position of a previously traced program does not carry over, unless an engine continues.
    """
    _state.sink = sink
    if sink is None and not is_described():
        _state.position = Position()


def attached() -> Sink | None:
    """The sink that receives labels, if any."""
    return _state.sink


def describe(description: Description) -> None:
    """Declare the engine of this process."""
    _state.description = description
    if _state.sink is not None:
        _state.sink.described(description)


def description() -> Description:
    """The description of this process's engine."""
    return _state.description


def is_described() -> bool:
    """Whether this process has an engine that declared itself: it also reports its position."""
    return bool(_state.description.units)


def engine_ends(described: Description) -> None:
    """The engine of this description is closed or gone: later training is not part of it.

    The current trace keeps the description.
    """
    if _state.description is described:
        _state.description = Description()
        if _state.sink is None:
            _state.position = Position()


def position() -> Position:
    """The position of this thread's work."""
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
    return _thread.labels.placed(_state.position)


def snapshot() -> Labels:
    """This thread's labels with time and source line, for work that another thread will do."""
    sink = _state.sink
    if sink is None:
        return current()
    mine = _thread.labels
    source, functions = mine.source, mine.functions
    if not source and not functions:
        source, functions = asked_through()
    return Labels(
        mine.position or _state.position,
        *mine[1:4],
        source,
        functions,
        sink.now_ns() if mine.issue_ns is None else mine.issue_ns,
        mine.is_alone,
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
    """Label this thread's work inside; omitted labels stay unchanged."""
    before = _thread.labels
    _thread.labels = before.explained(
        before.purpose if purpose is None else purpose,
        before.unit if unit is None else unit,
        tensors or before.tensors,
    )
    try:
        yield
    finally:
        _thread.labels = before


def work_for(unit: str, purpose: Purpose, *, is_alone: bool) -> None:
    """From here on this thread works for that unit, until the surrounding scope ends.

    Args:
        is_alone: no other collective of this process runs while one of this thread does.
    """
    _thread.labels = _thread.labels._replace(unit=unit, purpose=purpose, is_alone=is_alone)


def begin_compute(unit: str) -> int | None:
    """A unit begins to compute; pass the returned event to `end`."""
    _thread.computing = unit
    if _state.sink is None:
        return None
    mine = _thread.labels
    position = mine.position or _state.position
    event = _state.sink.open_compute(Labels(position, unit, *mine[2:]), position)
    _thread.computation = event
    return event


def end(event: int | None, error: str = "") -> None:
    """The event of `begin_compute` has ended."""
    _thread.computing, _thread.computation = "", None
    if event is not None and _state.sink is not None:
        _state.sink.close_compute(event, error)


def broke_off() -> None:
    """This thread's computation was aborted: `end` will not be called."""
    _thread.computing, _thread.computation = "", None


def is_alone() -> bool:
    """Whether this thread runs its collectives with exclusive use of the sockets."""
    return _thread.labels.is_alone


def unit_at_work() -> str:
    """The unit that this thread works for: the one of its labels, or the one that computes."""
    return _thread.labels.unit or _thread.computing


def recomputed() -> None:
    """The activations of this thread's computing unit were recomputed, within its backward."""
    if _state.sink is not None and _thread.computation is not None:
        _state.sink.recomputed(_thread.computation)


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
def collective(request: CollectiveRequest, buffer: Any = None) -> Iterator[None]:
    """The messages inside are the hops of one collective of our own.

    Args:
        buffer: the tensor that it works on from start to end.
    """
    before = _thread.collective
    sink = _state.sink
    event = sink.open_collective(snapshot(), request) if sink is not None else None
    _thread.collective = None if event is None or sink is None else (sink, event)
    _thread.last_collective = _thread.collective
    error = ""
    if event is not None and sink is not None and buffer is not None:
        sink.checks(event, buffer, is_over=False)
    try:
        yield
        if event is not None and sink is not None and buffer is not None:
            sink.checks(event, buffer, is_over=True)
    except BaseException as raised:
        error = first_line(raised)
        raise
    finally:
        _thread.collective = before
        if event is not None and sink is not None:
            sink.close(event, error)


class KernelCount:
    """The kernel's count for a copy from or to a disk, once known."""

    __slots__ = ("counted_bytes",)

    def __init__(self) -> None:
        self.counted_bytes: int | None = None


@contextmanager
def copying(request: CopyRequest) -> Iterator[KernelCount]:
    """The copy inside moves from one tier of this rank to another."""
    sink = _state.sink
    event = sink.open_copy(snapshot(), request) if sink is not None else None
    if event is not None and sink is not None:
        _thread.last_collective = (sink, event)
    copied, error = KernelCount(), ""
    try:
        yield copied
    except BaseException as raised:
        error = first_line(raised)
        raise
    finally:
        if event is not None and sink is not None:
            sink.close(event, error, copied.counted_bytes)


class Awaited:
    """A collective or a copy that will be waited for, known once it has begun."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun: tuple[Sink, int] | None = None


@contextmanager
def awaited(by: Awaited) -> Iterator[None]:
    """A wait for `by` is a wait for the collective or the copy inside."""
    _thread.last_collective = None
    before = _thread.works_for_others
    _thread.works_for_others = True
    try:
        yield
    finally:
        _thread.works_for_others = before
        by.begun = _thread.last_collective


@contextmanager
def waiting(collective: Awaited) -> Iterator[None]:
    """This thread waits inside until a collective or a copy has ended.

    A thread that works on behalf of others inside `awaited` is not part of the program: its wait
    for the work of another thread is not recorded.
    """
    sink = None if _thread.works_for_others else _state.sink
    since_ns = 0 if sink is None else sink.comes_to_wait()
    try:
        yield
    finally:
        begun = collective.begun
        if sink is not None and begun is not None and begun[0] is sink:
            sink.waited(current(), begun[1], since_ns)


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
        error = first_line(raised)
        raise
    finally:
        sink.end_exclusive(error)


@contextmanager
def hop(index: int, sends: int | None, receives: int | None) -> Iterator[Hop]:
    """The messages posted inside carry these shards in this hop of the open collective."""
    if _state.sink is not None and _thread.collective is not None:
        _state.sink.posts(index, (sends is not None) - (receives is not None))
    before = _thread.hop
    _thread.hop = posted = Hop(index, sends, receives)
    try:
        yield posted
    finally:
        _thread.hop = before


def open_collective() -> int | None:
    """The id of the collective that this thread's messages belong to, if any.

    A collective that began under an earlier sink does not belong to this one: ids are per sink.
    """
    opened = _thread.collective
    return opened[1] if opened is not None and opened[0] is _state.sink else None


def began(event: int) -> None:
    """A native collective of this thread began: a wait for the work is a wait for it."""
    if _state.sink is not None:
        _thread.last_collective = (_state.sink, event)


def last_collective() -> int | None:
    """The native collective that this thread began last, if it belongs to this sink."""
    last = _thread.last_collective
    return last[1] if last is not None and last[0] is _state.sink else None


def open_hop() -> Hop | None:
    """The hop that this thread is posting, if any."""
    return _thread.hop


def setting(name: str, value: float) -> None:
    """Report an option of this rank: a learning rate, a seed, a batch size."""
    if _state.sink is not None:
        _state.sink.setting(name, value)


def metric(name: str, value: float) -> None:
    """Report a number of the current iteration: a loss, a norm, a scale."""
    if _state.sink is not None:
        _state.sink.metric(position().iteration, name, value)
