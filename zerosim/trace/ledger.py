"""The memory ledger of one rank: at each event, the live bytes by role and unit.

The role of a storage comes from `holdings`, the tensors that autograd saved from `saved`, and every
size from the storage itself. The counts of the device's allocator are recorded beside them.
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase
from zerosim.schema.memory import Allocations, Holding, MemoryPlace, Moment, Role
from zerosim.schema.rows import row_writer
from zerosim.schema.shortrows import memory_row
from zerosim.trace import address_maps, dry
from zerosim.trace.alive import AliveStorages, Place, State
from zerosim.trace.allocations import AllocationRecord, MarkedAllocations
from zerosim.trace.holdings import holdings, storage_of
from zerosim.trace.labeler import Labeler
from zerosim.trace.roleless import RolelessStorages, alive_storages
from zerosim.trace.rowfile import Row, Rows
from zerosim.trace.saved import SavedTensors
from zerosim.trace.sink import Position
from zerosim.trace.threads import is_computing
from zerosim.trace.workspaces import Workspaces

_CHEAP_NS = 150_000
"""An inspection that takes no longer is never skipped."""
_RARELY = 50
"""A longer one is skipped until this multiple of its duration has passed."""
_FEW = 1000
"""Up to this many storages, no inspection is skipped, however slow the machine is: a small model's
trace does not depend on the machine's load."""

Changes = tuple[tuple[Place, int], ...]
"""The places whose bytes changed, with the new bytes."""

_ROUNDING = "blocks rounded to 512 B"
"""The unit of the bytes by which CUDA's caching allocator exceeds what was requested of it."""

# writes a row that does not fit the short form, without creating a record
_memory_row = row_writer(
    *("memory", "number", "event", "moment", "iteration", "micro_step", "phase", "time_ns"),
    *("changes", "unrecorded_bytes", "allocated_bytes", "peak_bytes"),
)


class MemoryLedger:
    """Inspects memory and records the changes. Thread-safe.

    Attributes:
        labeler: finds the gradients; None if they are not searched for.
    """

    def __init__(
        self, rows: Rows, now_ns: Callable[[], int], *, on_cuda: bool, counts_allocations: bool
    ) -> None:
        """Start inspecting.

        Args:
            rows: the rank's file.
            on_cuda: query the device's allocator at phase borders.
            counts_allocations: keep PyTorch's own record of this thread's allocations as well,
                unless a profiler is running already.
        """
        self.labeler: Labeler | None = None
        self._rows = rows
        self._now_ns = now_ns
        self._on_cuda = on_cuda
        self._looked_ns = self._cost_ns = 0
        self._lock = threading.Lock()
        self._number = -1
        self._written: State = {}
        self._places: dict[Place, int] = {}
        self._is_dear = False
        self._saved = SavedTensors(holdings)
        self._workspaces = Workspaces()
        self._rounded_bytes = 0
        self._record: AllocationRecord | None = None
        self._roleless: RolelessStorages | None = None
        self._looked_further = False
        holdings.sweep()
        self._alive = AliveStorages(holdings)
        self._saved.install()
        address_maps.explain_saved(self._saved.unit_of)
        if counts_allocations:
            self._alive.not_recorded = alive_storages()
            with suppress(RuntimeError):
                self._record = AllocationRecord()
        if self._record is None and not on_cuda and dry.installed() is None:
            self._roleless = RolelessStorages(holdings, self._saved.unit_of)

    def computes(self, unit: str) -> None:
        """Attribute what autograd saves from now on to this unit."""
        self._saved.unit = unit

    def uses(self, tensors: list[torch.Tensor]) -> None:
        """A collective was passed these tensors: those without another role are its buffers."""
        for tensor in tensors:
            storage = storage_of(tensor)
            held = None if storage is None else holdings.get(storage)
            if held is not None:
                self._alive.may_grow(held)
            elif storage is not None:
                holdings.hold(tensor, Role.BUFFERS, "", is_found=True)
                if self._record is not None and not self._record.is_own_thread:
                    reference = StorageWeakRef(storage)
                    self._alive.not_recorded[reference.cdata] = reference

    def look_after(self, row: Row, moment: Moment, event: int, position: Position) -> None:
        """Write a row of an event, then the changes since the last inspection."""
        looked = self._look(moment, event, position)
        if looked is None:
            self._rows.append(row)
        else:
            self._rows.append(row, looked)
            self._written_down(moment, position.phase)

    def look(
        self, position: Position, moment: Moment = Moment.PHASE, event: int | None = None
    ) -> None:
        """Record the changes since the last inspection, at the beginning of a phase.

        Args:
            moment: a different moment.
            event: the event that is open.
        """
        looked = self._look(moment, event, position)
        if looked is not None:
            self._rows.append(looked)
            self._written_down(moment, position.phase)
            if moment is Moment.PHASE:
                self._write_addresses(position)

    def _look(self, moment: Moment, event: int | None, where: Position) -> Row | None:
        """A row of the changes since the last inspection, if there are any; at a border always.

        Only the computing thread inspects: at an event of another thread nothing is written, and
        the changes until then are in the computing thread's next row.
        With thousands of storages an inspection is slow; it is then skipped at closely spaced
        events, so that inspections take a small part of the time.
        """
        if not is_computing():
            return None
        if len(self._alive) <= _FEW:
            return self._row(moment, event, where)
        if moment is not Moment.PHASE and dry.installed() is None and not self._is_due():
            return None
        # CPU time excludes preemption, but takes longer to read
        clock = time.thread_time_ns if self._is_dear else time.perf_counter_ns
        begin_ns = clock()
        row = self._row(moment, event, where)
        if self._looked_further:  # rare, and not counted as an inspection's cost
            return row
        cost_ns = clock() - begin_ns
        if row is None and cost_ns <= _CHEAP_NS:  # nothing had changed: the next may cost more
            return None
        if self._is_dear or cost_ns <= _CHEAP_NS:
            self._cost_ns = cost_ns
        self._is_dear = cost_ns > _CHEAP_NS
        if self._is_dear:
            self._looked_ns = time.perf_counter_ns()
        return row

    def _is_due(self) -> bool:
        """Whether enough time has passed that an inspection takes a small part of it."""
        passed_ns = time.perf_counter_ns() - self._looked_ns
        return self._cost_ns <= _CHEAP_NS or passed_ns >= _RARELY * self._cost_ns

    def _row(self, moment: Moment, event: int | None, where: Position) -> Row | None:
        at_border = moment is Moment.PHASE
        alive = self._alive
        with self._lock:
            if self.labeler is not None and (at_border or where.phase is Phase.BACKWARD):
                self.labeler.find_gradients(wholly=at_border)
            alive.bring_up_to_date(wholly=at_border)
            for unit, num_bytes in self._saved.changes().items():
                # in addition to the activations that a recomputing engine declares
                alive.add((Role.ACTIVATIONS, unit, Tier.DEVICE), num_bytes)
            self._looked_further = at_border and self._look_further(where)
            changes = self._take_changes() if alive.changed else ()
            if self._looked_further:
                changes = (*changes, *self._looked_for_more(changes))
            if not changes and not at_border:
                return None
            allocated = peak = None
            # the slowest part: between two borders, storages suffice
            if self._on_cuda and at_border and dry.installed() is None:
                allocated, peak, requested = _allocated_on_device()
                changes = self._with_workspaces(allocated, requested, changes)
            self._number = number = self._number + 1
            said, at = (number, event, moment), (where.iteration, where.micro_step, where.phase)
            now_ns = self._now_ns()
            if allocated is None and not alive.unrecorded_bytes:
                with suppress(struct.error):
                    return memory_row(*said, at, now_ns, self._numbered(changes))
            held = tuple([Holding(role, unit, size, tier) for (role, unit, tier), size in changes])
            return _memory_row(*said, *at, now_ns, held, alive.unrecorded_bytes, allocated, peak)

    def _numbered(self, changes: Changes) -> list[tuple[int, int]]:
        """The changes with the number of each place; a new place is recorded."""
        found = []
        for place, num_bytes in changes:
            number = self._places.get(place)
            if number is None:
                self._places[place] = number = len(self._places)
                role, unit, tier = place
                one = MemoryPlace(number=number, role=role, unit=unit, tier=tier)
                self._rows.write("place", one)
            found.append((number, num_bytes))
        return found

    def _look_further(self, where: Position) -> bool:
        """Search for storages without a role if it is time to; returns whether it was."""
        if self._roleless is None:
            return False
        looked = self._roleless.look(where)
        for kind, num_bytes in self._roleless.grown().items():
            self._alive.add((Role.OTHER, kind, Tier.DEVICE), num_bytes)
        return looked

    def _written_down(self, moment: Moment, phase: Phase) -> None:
        """Mark the last written row in PyTorch's own record."""
        record = self._record
        if record is not None:
            record.mark(self._number)
            ends = moment is Moment.PHASE and phase is Phase.OUTSIDE
            # autograd restores the record as it was when an operator's backward began
            may_read = record.is_own_thread and phase is not Phase.BACKWARD
            if may_read and (ends or record.is_full):
                self._write_allocations(record.read())

    def close(self) -> None:
        """Stop inspecting memory."""
        self._saved.remove()
        self._alive.close()
        if self._roleless is not None:
            self._roleless.close()
        address_maps.explain_saved(None)
        if self._record is not None:
            record, self._record = self._record, None
            self._write_allocations(record.close())

    def _write_addresses(self, position: Position) -> None:
        device = address_maps.installed()
        if device is not None:
            for drawn in device.maps(position):
                self._rows.write("addresses", drawn)

    def _write_allocations(self, counted: MarkedAllocations) -> None:
        if counted.numbers:
            row = Allocations(
                numbers=tuple(counted.numbers),
                allocated_bytes=tuple(counted.allocated_bytes),
                peak_bytes=tuple(counted.peak_bytes),
            )
            self._rows.write("allocations", row)

    def _with_workspaces(self, allocated: int, requested: int, changes: Changes) -> Changes:
        """The changes, including library workspaces and the allocator's rounding.

        Args:
            allocated, requested: bytes of its live blocks, and of the requests for them.
        """
        known = sum(
            size
            for (role, _, tier), size in self._alive.state.items()
            if tier is Tier.DEVICE and role is not Role.WORKSPACES
        )
        if self._workspaces.grown(requested - known):
            place = (Role.WORKSPACES, "cuBLAS", Tier.DEVICE)
            changes = (*changes, (place, self._workspaces.bytes))
        if self._rounded_bytes != allocated - requested:
            self._rounded_bytes = allocated - requested
            place = (Role.WORKSPACES, _ROUNDING, Tier.DEVICE)
            changes = (*changes, (place, self._rounded_bytes))
        return changes

    def _looked_for_more(self, changes: Changes) -> Changes:
        """Add an empty entry without a role, which shows that a search was made."""
        if any(role is Role.OTHER and not unit for (role, unit, _), _ in changes):
            return ()
        place = (Role.OTHER, "", Tier.DEVICE)
        return ((place, self._alive.state.get(place, 0)),)

    def _take_changes(self) -> Changes:
        """The changes since the last call."""
        state, written = self._alive.state, self._written
        changes = []
        for place in self._alive.changed:
            num_bytes = state[place]
            if written.get(place, 0) != num_bytes:
                written[place] = num_bytes
                changes.append((place, num_bytes))
        self._alive.changed.clear()
        return tuple(changes)


def _allocated_on_device() -> tuple[int, int, int]:
    """Live bytes of CUDA's caching allocator, their peak, and the bytes requested for them."""
    stats = torch.cuda.memory_stats_as_nested_dict()
    found: dict[str, int] = stats["allocated_bytes"]["all"] if stats else {}
    current = found.get("current", 0)
    requested: dict[str, int] = stats["requested_bytes"]["all"] if stats else {}
    # cudaMallocAsync does not count requests
    return current, found.get("peak", 0), requested.get("current") or current
