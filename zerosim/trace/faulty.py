"""Injected faults, at the points that the tracer intercepts: the program is not changed.

    a call of c10d            skipped, repeated, delayed, with other tensors, never completed
    a message of a ring       altered, or late
    a phase that begins       a bit of a parameter flips
    a computation that ends   takes longer
    PyTorch's functions       backward, an optimizer step, a data loader, the seed

The trace records the rank's actual behavior with the fault: a skipped call is not in it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, NoReturn

import torch
from torch._C import _distributed_c10d as _c10d
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils._pytree import tree_map

from zerosim.schema.events import Op, Phase
from zerosim.schema.faults import LASTING, OF_CALLS, OF_GRADIENTS, Fault, FaultKind
from zerosim.schema.memory import Role
from zerosim.trace import entries, guard, labels
from zerosim.trace.altered import INSTEAD, alter, alter_first, copied, wait_for
from zerosim.trace.holdings import bytes_of, holdings
from zerosim.trace.sink import Labels, Position

_AFTER_ALL_S = 3600.0
"""Interval at which a hanging rank wakes up."""
MESSAGES = (Op.SEND, Op.RECEIVE)


Way = tuple[Op, int]


class _Held(NamedTuple):
    """A call that is delayed until after the next one; for a message, the next in its direction."""

    call: Callable[[], Any]
    way: Way | None


class MetFault(NamedTuple):
    """A fault to inject into this call.

    Attributes:
        fault: None if the call follows a delayed one.
        here: the labels of the call.
        payload: its tensors.
        is_message: a message of a ring, already recorded.
        way: for a program's message, whether it is a send or receive, and the peer in the group.
    """

    fault: Fault | None
    here: Labels
    payload: Any = None
    is_message: bool = False
    way: Way | None = None


class _FaultDepth(threading.local):
    """Per thread: whether it is making a faulty call, into which no fault is injected again."""

    depth = 0


class Faults:
    """The faults of this rank, from `install` to `remove`."""

    def __init__(self, faults: Sequence[Fault], rank: int) -> None:
        """Keep those of this rank.

        Args:
            faults: the faults of all ranks.
        """
        self.own = tuple(one for one in faults if one.rank == rank)
        self._rank = rank
        self._happened: Counter[Fault] = Counter()
        self._met: Counter[tuple[Fault, int]] = Counter()
        self._held: _Held | None = None
        self._works: list[Any] = []  # of calls that the program did not make
        self._inside = _FaultDepth()
        self._undo = ExitStack()
        self._lock = threading.Lock()
        self.tear: Callable[[], None] = lambda: None
        """Writes half a row; set by the owner of the file."""

    # start and end

    def install(self) -> None:
        """Begin."""
        _CurrentFaults.faults = self
        kinds = {one.kind for one in self.own}
        if FaultKind.NO_BACKWARD in kinds:
            self._undo.enter_context(entries.replaced_backward(self._leaves_backward_out))
        if FaultKind.LEARNING_RATE in kinds:
            hook = register_optimizer_step_pre_hook(lambda one, *_: self._sets_rate(one))
            self._undo.callback(hook.remove)
        if kinds & {FaultKind.SHORT_DATA, FaultKind.LOADER_ERROR, FaultKind.BATCH}:
            self._undo.enter_context(entries.replaced_loader(self._reads_next, self._halves))
        if FaultKind.SEED in kinds:
            self._undo.enter_context(entries.replaced_seed(self._seeds))

    def remove(self) -> None:
        """End; report faults that did not occur."""
        self._undo.close()
        _CurrentFaults.faults = None
        for one in self.own:
            if not self._happened[one]:
                guard.say(f"fault {one} did not occur: the run never reached its target")

    def happens(self, fault: Fault, where: str) -> None:
        """Report once that a fault occurs."""
        self._happened[fault] += 1
        if self._happened[fault] == 1:
            guard.say(f"fault {fault}: {where}")

    def is_due(self, fault: Fault, iteration: int) -> bool:
        """Whether a fault can occur in this iteration."""
        if fault.kind in LASTING:
            return iteration >= fault.iteration
        return iteration == fault.iteration and not self._happened[fault]

    def of(self, kind: FaultKind, iteration: int) -> Fault | None:
        """A fault of this kind that is due."""
        due = (one for one in self.own if one.kind is kind and self.is_due(one, iteration))
        return next(due, None)

    # calls

    def meets(self, here: Labels, op: Op, *, is_ring: bool = False) -> Fault | None:
        """The fault at this call, for a rank that is about to make it.

        Args:
            is_ring: its messages will be intercepted one by one.
        """
        if self._inside.depth or not self.own:
            return None
        position = here.position or labels.position()
        for fault in self.own:
            if fault.kind not in OF_CALLS or (fault.kind is FaultKind.FLIP_MESSAGE and is_ring):
                continue
            if fault.kind is FaultKind.PEER and op not in MESSAGES:
                continue
            if not self.is_due(fault, position.iteration):
                continue
            if not fault.is_at(here.unit, op, position.phase, here.purpose):
                continue
            with self._lock:
                number = self._met[fault, position.iteration]
                self._met[fault, position.iteration] += 1
            if number == fault.call:
                self.happens(fault, _words(here, op, position))
                return fault
        return None

    def holds_back(self, way: Way | None = None) -> bool:
        """Whether a delayed call waits for this one.

        Args:
            way: its direction, for a message.
        """
        held = self._held
        return held is not None and not self._inside.depth and held.way in (None, way)

    def perform(
        self,
        fault: Fault | None,
        call: Callable[[Any], Any],
        given: Any,
        *,
        payload: Any,
        skipped: Callable[[Any], Any],
        way: Way | None = None,
    ) -> Any:
        """Make a call as a rank with this fault would.

        Args:
            fault: None for a call that follows a delayed one.
            call: makes the call, with tensors in place of those in `given`.
            given: its tensors, in their original containers.
            payload: those that are input of the rank.
            skipped: the return value if the call is never made.
            way: for a program's message.
        """
        self._inside.depth += 1
        try:
            if fault is None:
                result, held, self._held = call(given), self._held, None
                if held is not None:
                    self._works.append(held.call())
                return result
            if fault.kind in OF_GRADIENTS:
                alter_first(payload, fault)
                return call(given)
            return self._perform(fault, call, given, skipped, way)
        finally:
            self._inside.depth -= 1

    def _perform(
        self,
        fault: Fault,
        call: Callable[[Any], Any],
        given: Any,
        skipped: Callable[[Any], Any],
        way: Way | None,
    ) -> Any:
        kind = fault.kind
        if kind in INSTEAD:
            result = call(INSTEAD[kind](given))
            if way is not None:  # its peer may arrive after the program's next action
                return result
            wait_for(result)
        elif kind is FaultKind.SWAP:
            later = tree_map(copied, given)
            self._held = _Held(lambda: call(later), way)
        elif kind is not FaultKind.SKIP:
            self._stop(kind)
            if kind is FaultKind.REPEAT:
                self._works.append(call(tree_map(copied, given)))
            result = call(given)
            if kind is FaultKind.FLIP_MESSAGE:
                wait_for(result)
                alter_first(given, fault)
            return result
        return skipped(given)

    def _stop(self, kind: FaultKind) -> None:
        """Die, or hang, if that is the fault."""
        if kind is FaultKind.DIE_WRITING:
            self.tear()
        if kind in (FaultKind.DIE, FaultKind.DIE_WRITING):
            _die()
        while kind is FaultKind.HANG:
            time.sleep(_AFTER_ALL_S)

    # messages

    def meets_message(self, here: Labels) -> Fault | None:
        """The fault of this message of a ring, which is about to be sent."""
        position = here.position or labels.position()
        for fault in self.own:
            if fault.kind not in (FaultKind.FLIP_MESSAGE, FaultKind.SLOW_LINK):
                continue
            is_meant = fault.is_at(here.unit, fault.op, position.phase, here.purpose)
            if is_meant and self.is_due(fault, position.iteration):
                self.happens(fault, _words(here, Op.SEND, position))
                return fault
        return None

    def carry(self, fault: Fault, given: Any) -> Any:
        """The altered tensors of a message, after a delay."""
        if fault.kind is FaultKind.SLOW_LINK:
            time.sleep(fault.ms / 1e3)
            return given
        altered = tree_map(copied, given)
        alter_first(altered, fault)
        return altered

    # places

    def entered(self, position: Position) -> None:
        """The process entered a phase."""
        if position.phase is not Phase.FORWARD:
            return
        fault = self.of(FaultKind.FLIP_PARAMETER, position.iteration)
        if fault is None:
            return
        for held in holdings:
            if held.role is not Role.PARAMETERS or not held.is_alive():
                continue
            if fault.unit and not fault.is_at(held.unit, fault.op, Phase.FORWARD, fault.purpose):
                continue
            storage = torch.UntypedStorage._new_with_weak_ptr(held.key)
            if storage is None or storage.nbytes() < 4:
                continue
            self.happens(fault, f"a parameter of {held.unit}, before {_moment(position)}")
            whole = bytes_of(storage)
            alter(whole[: whole.numel() // 4 * 4].view(torch.float32), fault)
            return

    def computed(self, here: Labels | Position, unit: str, seconds: float) -> None:
        """A computation took this long; a slow rank takes longer."""
        position = here if isinstance(here, Position) else here.position or labels.position()
        fault = self.of(FaultKind.SLOW, position.iteration)
        if fault is not None and fault.is_at(unit, fault.op, position.phase, fault.purpose):
            self.happens(fault, f"computing {unit}, from {_moment(position)} on")
            time.sleep(seconds * max(0.0, fault.times - 1) + fault.ms / 1e3)

    def rate(self, iteration: int) -> float:
        """Factor of an engine's learning rate from this iteration on."""
        fault = self.of(FaultKind.LEARNING_RATE, iteration)
        if fault is None:
            return 1.0
        self.happens(fault, f"update of iteration {iteration}")
        return fault.times

    def told(self) -> None:
        """An engine's run was given different options on this rank."""
        for fault in self.own:
            if fault.kind in (FaultKind.SEED, FaultKind.BATCH):
                self.happens(fault, "from the beginning")

    def reads(self, iteration: int) -> None:
        """The program reads the data of this iteration.

        Raises:
            StopIteration: the data end here, unlike those of other ranks.
            RuntimeError: they cannot be read.
        """
        for kind in (FaultKind.SHORT_DATA, FaultKind.LOADER_ERROR):
            fault = next((one for one in self.own if one.kind is kind), None)
            if fault is None or iteration < fault.iteration:
                continue
            self.happens(fault, f"data of iteration {iteration}")
            if kind is FaultKind.SHORT_DATA:
                raise StopIteration
            raise RuntimeError(f"the data of iteration {iteration} cannot be read")

    # PyTorch's entries

    def _leaves_backward_out(self) -> bool:
        position = labels.position()
        iteration = position.iteration
        fault = self.of(FaultKind.NO_BACKWARD, iteration)
        if fault is None:
            return False
        self.happens(fault, f"backward of iteration {iteration}")
        return True

    def _sets_rate(self, optimizer: Any) -> None:
        iteration = labels.position().iteration
        fault = next((one for one in self.own if one.kind is FaultKind.LEARNING_RATE), None)
        if fault is None or not self.is_due(fault, iteration) or self._happened[fault]:
            return
        self.happens(fault, f"update of iteration {iteration}")
        for group in optimizer.param_groups:
            group["lr"] *= fault.times

    def _reads_next(self) -> None:
        here = labels.position()
        self.reads(here.iteration + (here.phase is Phase.OUTSIDE))

    def _halves(self, size: int) -> int:
        """The size of the batches that a loader reads from now on."""
        fault = next((one for one in self.own if one.kind is FaultKind.BATCH), None)
        if fault is None or self._happened[fault] or size < 2:
            return size
        self.happens(fault, f"batches of {size // 2}")
        return size // 2

    def _seeds(self, number: int) -> int:
        fault = next(one for one in self.own if one.kind is FaultKind.SEED)
        self.happens(fault, f"seed {number + 1}")
        return number + 1


class _CurrentFaults:
    faults: Faults | None = None


def installed() -> Faults | None:
    """The faults of this rank, if any."""
    return _CurrentFaults.faults


def _words(here: Labels, op: Op, position: Position) -> str:
    unit = f" of {here.unit}" if here.unit else ""
    line = f", {here.source}" if here.source else ""
    return f"{op}{unit}, {_moment(position)}{line}"


def _moment(position: Position) -> str:
    return f"{position.phase} of iteration {position.iteration}"


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # until the signal arrives
        time.sleep(_AFTER_ALL_S)


def go_wrong(
    met: MetFault,
    operator: Any,
    given: tuple[Any, ...],
    again: Callable[..., Any],
    sends: Callable[..., Any],
) -> Any:
    """Call an operator with a rank's fault.

    Args:
        again: calls it, and the call is recorded.
        sends: calls it after the call was recorded.
    """
    faults = installed()
    assert faults is not None, "a fault is met where there is one"
    if met.is_message:
        assert met.fault is not None, "a message is met by a fault alone"
        return sends(*faults.carry(met.fault, given))

    def call(other: tuple[Any, ...]) -> Any:
        with labels.restored(met.here):
            return again(*other)

    return faults.perform(
        met.fault,
        call,
        given,
        payload=met.payload,
        skipped=lambda _: done(operator, given),
        way=met.way,
    )


def done(operator: Any, given: tuple[Any, ...]) -> Any:
    """The return value of an operator that did nothing: its first output, and a completed work."""
    num_returned = len(operator._schema.returns)
    if num_returned == 0:
        return None
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(given[0] if isinstance(given[0], list) else [given[0]])
    work = vars(_c10d)["_create_work_from_future"](future).boxed()
    return work if num_returned == 1 else (given[0], work)
