"""The memory ledger of one rank: at each event, the bytes that are alive, by role and unit.

What a storage is for comes from `holdings`, what autograd saved from `saved`, and how large it is
always from the storage itself. Beside it stands what the device's allocator says.
Imports torch and zerosim's L0.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.events import Phase
from zerosim.memory import Allocations, Holding, MemorySample, Moment, Role
from zerosim.tiers import Tier
from zerosim.trace import places
from zerosim.trace.allocations import AllocationRecord, MarkedAllocations
from zerosim.trace.holdings import HeldStorage, holdings, storage_of
from zerosim.trace.labeler import Labeler
from zerosim.trace.saved import SavedTensors
from zerosim.trace.sink import Position
from zerosim.trace.threads import is_computing

_MOVING = (Role.GRADIENTS, Role.GATHERED, Role.BUFFERS, Role.ACTIVATIONS, Role.CHECKPOINTS)
"""Looked at in each event; the others come and go between phases only."""

_CHEAP_NS = 300_000
"""A look that takes no longer is never left out."""
_RARELY = 50
"""One that does is left out until so many times as long has passed."""

State = dict[tuple[Role, str, Tier], int]
"""Bytes by role, unit and tier."""
Write = Callable[[str, object], None]


class MemoryLedger:
    """Looks at memory and writes down what changed. Safe to use from several threads.

    Attributes:
        labeler: is asked to find the gradients; None if nobody is.
    """

    def __init__(
        self, write: Write, now_ns: Callable[[], int], *, on_cuda: bool, counts_allocations: bool
    ) -> None:
        """Begin to look.

        Args:
            write: takes the rows.
            on_cuda: ask the device's allocator each time.
            counts_allocations: keep PyTorch's own record of this thread's allocations as well,
                unless a profiler is running already.
        """
        self.labeler: Labeler | None = None
        self._write = write
        self._now_ns = now_ns
        self._on_cuda = on_cuda
        self._looked_ns = self._cost_ns = 0
        self._lock = threading.Lock()
        self._number = 0
        self._state: State = {}
        self._fixed: list[HeldStorage] = []
        self._moving: list[HeldStorage] = []
        self._fixed_state: State = {}
        self._version = -1
        self._unrecorded = 0
        self._fixed_unrecorded = 0
        self._saved = SavedTensors(holdings)
        self._not_recorded: dict[int, StorageWeakRef] = {}
        self._record: AllocationRecord | None = None
        self._thread = threading.get_ident()
        holdings.sweep()
        self._saved.install()
        places.explain_saved(self._saved.unit_of)
        if counts_allocations:
            self._not_recorded = _alive_storages()
            with suppress(RuntimeError):
                self._record = AllocationRecord()

    def computes(self, unit: str) -> None:
        """What autograd saves from now on is this unit's."""
        self._saved.unit = unit

    def uses(self, tensors: list[torch.Tensor]) -> None:
        """A collective was given these tensors: those that are nothing else are its buffers."""
        for tensor in tensors:
            storage = storage_of(tensor)
            if storage is not None and holdings.get(storage) is None:
                holdings.hold(tensor, Role.BUFFERS, "", is_found=True)
                if self._record is not None and not self._record.is_own_thread:
                    reference = StorageWeakRef(storage)
                    self._not_recorded[reference.cdata] = reference

    def look(self, moment: Moment, event: int | None, position: Position) -> None:
        """Write down what changed since the last look; at a phase border in any case.

        Only the thread that computes looks: at an event of another thread nothing is written, and
        what changed until then is in the next sample of the thread that computes.
        With thousands of parameters a look takes long; it is then left out at events that follow
        one another closely, so that looking stays a small part of the time.
        """
        if not is_computing():
            return
        if (
            moment is not Moment.PHASE
            and self._cost_ns > _CHEAP_NS
            and time.perf_counter_ns() - self._looked_ns < _RARELY * self._cost_ns
        ):
            return
        begin_ns = time.thread_time_ns()  # a thread that was made to wait has not cost more
        with self._lock:
            state = self._measure(moment, position)
            old = self._state
            changes = tuple(
                Holding(*place[:2], state.get(place, 0), place[2])
                for place in old.keys() | state.keys()
                if old.get(place, 0) != state.get(place, 0)
            )
            if changes or moment is Moment.PHASE:
                self._state = state
                sample = MemorySample(
                    number=self._number,
                    event=event,
                    moment=moment,
                    iteration=position.iteration,
                    micro_step=position.micro_step,
                    phase=position.phase,
                    time_ns=self._now_ns(),
                    changes=changes,
                    unrecorded_bytes=self._unrecorded,
                    allocated_bytes=_allocated_on_device() if self._on_cuda else None,
                )
                self._number += 1
                self._write("memory", sample)
                if self._record is not None:
                    self._record.mark(sample.number)
            self._looked_ns = time.perf_counter_ns()
            self._cost_ns = time.thread_time_ns() - begin_ns
        if moment is Moment.PHASE:
            self._write_addresses(position)
        ends = moment is Moment.PHASE and position.phase is Phase.OUTSIDE
        record = self._record
        if record is not None and record.is_own_thread and (ends or record.is_full):
            self._write_allocations(record.read())

    def close(self) -> None:
        """Look no more."""
        self._saved.remove()
        places.explain_saved(None)
        if self._record is not None:
            record, self._record = self._record, None
            self._write_allocations(record.close())

    def _write_addresses(self, position: Position) -> None:
        device = places.installed()
        if device is not None:
            for drawn in device.maps(position):
                self._write("addresses", drawn)

    def _write_allocations(self, counted: MarkedAllocations) -> None:
        if counted.numbers:
            row = Allocations(
                numbers=tuple(counted.numbers),
                allocated_bytes=tuple(counted.allocated_bytes),
                peak_bytes=tuple(counted.peak_bytes),
            )
            self._write("allocations", row)

    def _measure(self, moment: Moment, position: Position) -> State:
        at_border = moment is Moment.PHASE
        makes_gradients = at_border or position.phase is Phase.BACKWARD
        if makes_gradients and self.labeler is not None:
            self.labeler.find_gradients()
        if holdings.version != self._version:
            self._version = holdings.version
            everything = list(holdings)
            self._fixed = [held for held in everything if held.role not in _MOVING]
            self._moving = [held for held in everything if held.role in _MOVING]
            at_border = True
        if at_border:
            self._fixed_state = {}
            self._unrecorded = 0
            self._fixed = self._add(self._fixed, self._fixed_state)
            for role, unit, num_bytes in holdings.files():
                place = (role, unit, Tier.DISK)
                self._fixed_state[place] = self._fixed_state.get(place, 0) + num_bytes
            self._fixed_unrecorded = self._unrecorded
        state = dict(self._fixed_state)
        self._unrecorded = self._fixed_unrecorded
        self._moving = self._add(self._moving, state)
        for unit, num_bytes in self._saved.bytes_by_unit().items():
            if num_bytes:  # beside what an engine holds that computes a unit again
                place = (Role.ACTIVATIONS, unit, Tier.DEVICE)
                state[place] = state.get(place, 0) + num_bytes
        return state

    def _add(self, entries: list[HeldStorage], state: State) -> list[HeldStorage]:
        """Add what these storages occupy; returns those that are alive."""
        alive = []
        for held in entries:
            num_bytes = held.bytes()
            if num_bytes is None:
                holdings.drop(held.key)
                self._not_recorded.pop(held.key, None)
                continue
            alive.append(held)
            if num_bytes:
                place = (held.role, held.unit, held.tier)
                state[place] = state.get(place, 0) + num_bytes
                if held.key in self._not_recorded or held.thread != self._thread:
                    self._unrecorded += num_bytes
        return alive


def _alive_storages() -> dict[int, StorageWeakRef]:
    """Every storage that Python knows of, by key."""
    found: dict[int, StorageWeakRef] = {}
    for thing in gc.get_objects():
        is_plain = type(thing) in (torch.Tensor, torch.nn.Parameter)
        storage = storage_of(thing) if is_plain else None
        if storage is not None:
            reference = StorageWeakRef(storage)
            found[reference.cdata] = reference
    return found


def _allocated_on_device() -> int:
    """What CUDA's caching allocator says is alive."""
    stats = torch.cuda.memory_stats_as_nested_dict()
    current: int = stats["allocated_bytes"]["all"]["current"] if stats else 0
    return current
