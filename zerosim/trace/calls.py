"""Turns an intercepted call into a row: a hop of a ring, a native collective, a lone message."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from zerosim.base.errors import first_line
from zerosim.schema.events import Kind, Op, Purpose
from zerosim.schema.stands import Stand
from zerosim.trace import dry, faulty, labels
from zerosim.trace.checksums import Checksums
from zerosim.trace.extent import Extent
from zerosim.trace.faulty import MetFault
from zerosim.trace.gate import gate
from zerosim.trace.guard import guarded
from zerosim.trace.holdings import storage_of
from zerosim.trace.labeler import Labeler
from zerosim.trace.operators import OperatorCall
from zerosim.trace.posted_messages import PostedMessages
from zerosim.trace.sink import Labels
from zerosim.trace.templates import Shared
from zerosim.trace.threads import is_computing
from zerosim.trace.unended import Unended
from zerosim.trace.writer import EventWriter

_MOST_REMEMBERED = 256
"""Maximum number of remembered tensors that identify pending collectives."""
_LOOK_S = 0.002
_A_MOMENT_S = 1.0
"""Timeout for a backend thread to report the end of a call; the machine may be busy."""


class _CallingThread(threading.local):
    exclusive: list[int] | None = None
    since_ns: int = 0


@dataclass(slots=True)
class _PendingCall:
    """A native call that reports its end.

    Attributes:
        work: kept alive with its tensors until the call ends, so that it identifies a wait.
        thread: the calling thread.
        reads_wire: no other collective uses the sockets until it ends.
    """

    work: Any
    future: torch.futures.Future[Any]
    thread: int
    reads_wire: bool


class Calls:
    """Records what `intercept` passes on: calls of operators, and waits for them.

    Attributes:
        labeler: infers labels of unlabelled calls; None for no inference.
    """

    def __init__(
        self, writer: EventWriter, extent: Extent, checksums: Checksums | None = None
    ) -> None:
        self._checksums = checksums
        self._extent = extent
        self.messages = PostedMessages(writer.rows)
        self.labeler: Labeler | None = None
        self._writer = writer
        self._thread = _CallingThread()
        self._works: dict[int, _PendingCall] = {}
        self._events: dict[int, int] = {}
        self._over: deque[int] = deque()
        self._by_storage: OrderedDict[int, tuple[int, tuple[int, ...]]] = OrderedDict()
        self._unended = Unended()

    def issued(self, call: OperatorCall) -> int | MetFault | None:
        """A c10d operator is about to run; returns the event to end, if it has an end.

        On a rank with an injected fault at this call, it returns the fault.
        """
        self.release_works()
        algorithm, ranks = self._writer.describe_group(call)
        self._writer.uses(call.tensors)
        if call.op is Op.REDUCE_SCATTER:
            self._writer.uses(call.results)
        parent = labels.open_collective()
        is_message = call.op in (Op.SEND, Op.RECEIVE)
        if parent is not None and is_message and call.peer is not None:
            self._post(call, parent, ranks[call.peer])
            return _met_message(call)
        current = self._explained(call)
        if (met := _met(call, current)) is not None:
            return met
        group = call.group_name
        sequence = None if is_message else self._writer.next_sequence(group)
        if current is None:
            return None
        if gate.is_closed:
            gate.stop(_stand(call, current, sequence, ranks))
        is_exclusive = self._thread.exclusive is not None
        self._end_dropped()
        shared = Shared(
            current.purpose,
            call.op,
            call.operator,
            algorithm,
            group,
            () if call.peer is None else (ranks[call.peer],),
            _dtype_name(call.tensors[0].dtype) if call.tensors else "",
            call.elements,
            call.payload_bytes,
            call.parts,
            call.received_parts,
        )
        position = current.position or labels.position()
        event = self._writer.begin(
            self._writer.template(current, position.phase, Kind.COLLECTIVE, shared),
            position,
            issue_ns=current.issue_ns,
            sequence=sequence,
            counts_messages=is_message,
            reads_wire=is_exclusive or (current.is_alone and not is_message),
            on_device=call.device.type != "cpu",
        )
        labels.began(event)
        if is_message:
            self._count(call, event)
        else:
            self._remember(call, event)
        if self._checksums is not None:
            self._checksums.given(call.op, event, position, current.unit, call.tensors)
            if not is_message:
                self._checksums.awaits(call.op, event, position, current.unit, call.results)
        return event

    def _explained(self, call: OperatorCall) -> Labels | None:
        """The labels of a call; None if its iteration is not recorded."""
        takes = self._extent.takes
        is_between = not takes(labels.position().iteration)
        # the source line of an unrecorded call is not needed
        current = labels.current() if is_between else labels.snapshot()
        if self.labeler is not None and current.purpose is Purpose.UNLABELLED:
            current = self.labeler.explain(call, current)
        position = current.position or labels.position()
        if not takes(position.iteration):
            return None
        if is_between:  # its call begins the next recorded iteration
            asked = labels.snapshot()
            current = current._replace(
                source=asked.source, functions=asked.functions, issue_ns=asked.issue_ns
            )
        return current

    def performed(self, token: int, work: Any) -> None:
        """The operator returned; its communication may still be in flight."""
        begun = self._writer.begun(token)
        if begun is None:
            return
        if self._writer.device is not None and work is not None:
            self._writer.device.ends(token, work)
        if self._thread.exclusive is not None:
            self._thread.exclusive.append(token)
            return
        if dry.installed() is not None and work is not None:
            # already complete, with a simulated end; kept so that a wait for it is recorded
            self._unended.keep(work, token)
        if dry.installed() is not None or work is None:
            self._writer.end(token, "")
            return
        try:
            future = work.get_future()
        except RuntimeError:
            self._unended.keep(work, token)
            return
        if self._checksums is not None:
            self._checksums.performed(token, work)
        # as long as this refers to the work, a waiter gets the same object
        is_alone = labels.is_alone()
        self._works[token] = _PendingCall(work, future, threading.get_ident(), is_alone)
        self._events[id(work)] = token
        future.add_done_callback(lambda done: self._is_over(token, done, reads_wire=is_alone))

    def waits(self, work: Any) -> int | None:
        """A thread is about to wait for a work; returns the event, if it is known."""
        event = self._unended.event_of(work)
        if event is None:
            event = self._events.get(id(work), -1)
            asked = self._works.get(event)
            if asked is None or asked.work is not work or self._writer.begun(event) is None:
                return None
        self._thread.since_ns = self._writer.comes_to_wait()
        return event

    @property
    def looks_at_results(self) -> bool:
        """Whether results are checksummed."""
        return self._checksums is not None

    def got(self, work: Any) -> None:
        """Record that a thread has waited for a work."""
        if self._checksums is not None:
            self._checksums.got(work)

    def waits_for_tensor(self, tensor: torch.Tensor) -> int | None:
        """A thread is about to wait for the call that produces a tensor; as for a work."""
        event, others = self._by_storage.get(_address(tensor), (None, ()))
        for address in others:
            self._by_storage.pop(address, None)
        self._thread.since_ns = self._writer.comes_to_wait()
        return event

    def waited(self, token: int, error: str) -> None:
        """The thread waited until now; `error` is "" if the wait succeeded."""
        if self._extent.light is None:
            self._writer.write_wait(labels.current(), token, self._thread.since_ns)
        if self._checksums is not None:
            self._checksums.waited(token, has_failed=bool(error))
        source = self._source_of(token)
        if self._unended.forget(token):
            self._writer.end(token, error, peers=source)
        else:
            self.release_works()

    def release_works(self) -> None:
        """Drop completed works, if this thread may free their tensors.

        Dropping a work may drop the last reference to its tensors. The caller or the computing
        thread is allowed to free them; the backend's thread, which reports the end, is not.
        """
        self._unended.let_go()
        if not self._over:
            return
        own, computes = threading.get_ident(), is_computing()
        for _ in range(len(self._over)):
            with suppress(IndexError):  # another thread may remove entries too
                token = self._over.popleft()
                asked = self._works.get(token)
                if asked is None:
                    continue
                if computes or asked.thread == own:
                    del self._works[token]
                    self._events.pop(id(asked.work), None)
                else:
                    self._over.append(token)

    def refused(self, token: int, error: BaseException) -> None:
        """The operator raised: nothing is in flight."""
        self._writer.end(token, first_line(error))

    def begin_exclusive(self) -> None:
        """This thread's next native collectives have the sockets for themselves."""
        self._thread.exclusive = []

    def end_exclusive(self, error: str) -> None:
        """The native collectives since `begin_exclusive` have ended."""
        events = self._thread.exclusive or []
        self._thread.exclusive = None
        for event in events:
            self._writer.end(event, error, reads_wire=len(events) == 1)

    @guarded
    def settle(self, *, longest_s: float) -> None:
        """Wait until the backend's threads have reported the end of all calls.

        Destroying a group joins its threads while holding the GIL, which these threads need to
        report.

        Args:
            longest_s: timeout for pending calls; completed ones have a shorter one.
        """
        begun = time.monotonic()
        while under_way := [self._works[token] for token in {*self._works} - {*self._over}]:
            passed = time.monotonic() - begun
            is_said = all(not asked.future.done() for asked in under_way)
            if passed > _A_MOMENT_S + longest_s or (is_said and passed > longest_s):
                break
            time.sleep(_LOOK_S)
        time.sleep(_LOOK_S)  # and the last of them to return

    @guarded
    def finish(self) -> None:
        """Record completed calls that have not been reported yet."""
        self.settle(longest_s=0)
        for event in self._unended.take_all():
            self._writer.end(event, "", is_seen=False)
        self.end_those_over()
        self.messages.flush()

    def end_those_over(self) -> None:
        """Record the end of calls that the backend's thread has not reported yet.

        A waiter may continue, and even exit, before that thread runs.
        """
        for token, asked in list(self._works.items()):
            if self._writer.begun(token) is not None and asked.future.done():
                error = _error_of(asked.future)
                self._writer.end(token, error, reads_wire=asked.reads_wire)

    def _is_over(self, token: int, done: torch.futures.Future[Any], *, reads_wire: bool) -> None:
        """The backend's thread reports the end of a call: it takes the time and frees nothing.

        It may be a thread that does not compute.
        """
        self._writer.end(token, _error_of(done), reads_wire=reads_wire)
        self._over.append(token)

    def _source_of(self, token: int) -> tuple[int, ...]:
        """The sender of a receive from any rank; its work provides it after the wait."""
        begun, work = self._writer.begun(token), self._unended.work_of(token)
        if begun is None or work is None:
            return ()
        call = begun.template
        if call.op is not Op.RECEIVE or call.peers:
            return ()
        ranks = self._writer.ranks_of(call.group)
        try:
            place = work._source_rank()
        except RuntimeError:  # it failed, or its backend does not report it
            return ()
        return ranks[place : place + 1] if place >= 0 else ()

    def _remember(self, call: OperatorCall, event: int) -> None:
        """Remember a functional collective's tensors, by which it will soon be waited for."""
        addresses = tuple(filter(None, map(_address, call.results)))
        for address in addresses:
            self._by_storage[address] = (event, addresses)
        while len(self._by_storage) > _MOST_REMEMBERED:
            self._by_storage.popitem(last=False)

    def _end_dropped(self) -> None:
        """End calls that were dropped without a wait, at an unknown time."""
        for event in self._unended.take_dropped():
            self._writer.end(event, "", is_seen=False)

    def _post(self, call: OperatorCall, parent: int, peer: int) -> None:
        self._count(call, parent)
        number, now = self._writer.take_id(), self._writer.now_ns()
        self.messages.post(number, parent, call, peer, labels.open_hop(), now)
        if self._checksums is not None:
            here, unit = labels.position(), labels.current().unit
            self._checksums.given(call.op, number, here, unit, call.tensors)
            self._checksums.awaits(call.op, number, here, unit, call.tensors)

    def _count(self, call: OperatorCall, event: int) -> None:
        """Add a message to an event: a hop of a collective, or an event itself."""
        size = call.payload_bytes
        sent, received = (size, 0) if call.op is Op.SEND else (0, size)
        self._writer.add_message(event, sent_bytes=sent, received_bytes=received)


def _stand(
    call: OperatorCall, current: Labels, sequence: int | None, ranks: tuple[int, ...]
) -> Stand:
    """The call that a thread is about to make, for the gate."""
    is_message = call.op in (Op.SEND, Op.RECEIVE)
    peer = ranks[call.peer] if is_message and call.peer is not None else None
    position = current.position or labels.position()
    return Stand(
        kind=Kind.COLLECTIVE,
        iteration=position.iteration,
        micro_step=position.micro_step,
        phase=position.phase,
        unit=current.unit,
        purpose=current.purpose,
        op=call.op,
        group=call.group_name,
        ranks=ranks if peer is None else (),
        peer=peer,
        sequence=sequence,
        payload_bytes=call.payload_bytes,
        source=current.source,
    )


def _met(call: OperatorCall, current: Labels | None) -> MetFault | None:
    """The fault to inject into a program's call; an engine's calls are handled elsewhere."""
    faults = faulty.installed()
    if faults is None or current is None or labels.is_described():
        return None
    peer = call.peer if call.op in faulty.MESSAGES else None
    way = None if peer is None else (call.op, peer)
    if faults.holds_back(way):
        return MetFault(None, current, way=way)
    fault = faults.meets(current, call.op)
    return None if fault is None else MetFault(fault, current, call.tensors, way=way)


def _met_message(call: OperatorCall) -> MetFault | None:
    """The same for a message of a ring."""
    faults = faulty.installed()
    if faults is None or call.op is not Op.SEND:
        return None
    here = labels.current()
    fault = faults.meets_message(here)
    return None if fault is None else MetFault(fault, here, is_message=True)


def _error_of(done: torch.futures.Future[Any]) -> str:
    """The error of a finished future's work; "" if it succeeded.

    The future's value is a list of tensors, which only the computing thread may touch. A combined
    future is read instead: its value is the list of futures, its error the first of theirs.
    """
    try:
        torch._C._collect_all([done]).value()
    except Exception as error:  # noqa: BLE001 - any error is recorded
        return first_line(error)
    return ""


def _address(tensor: torch.Tensor) -> int:
    storage = storage_of(tensor)
    return 0 if storage is None else storage._cdata


@cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
