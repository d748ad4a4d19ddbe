"""Roles of memory, and the rows with the live bytes of each role.

    memory        at an event: the bytes of each role that changed
    place         a role, a unit and a tier, to which short rows refer (`zerosim.schema.shortrows`)
    allocations   once an iteration: the counts of PyTorch's allocator at those events
    addresses     with a device limit, at phase borders and at the peak: the address map

A role's bytes are those of its live storages, each counted once. They are listed by unit, and a row
contains only changes, so the state at a row is the last value of each (role, unit).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase


class Role(StrEnum):
    """The role of memory. The first five are the model states."""

    PARAMETERS = "parameters"
    """The parameters that this rank keeps between iterations: all of them, or its shard."""
    GRADIENTS = "gradients"
    MASTER = "fp32 master"
    """fp32 copy of the parameters; only if their dtype is below fp32."""
    MOMENTUM = "momentum"
    VARIANCE = "variance"
    GATHERED = "gathered parameters"
    """Whole units that exist only while they are used in computation."""
    BUFFERS = "communication buffers"
    """Buffers of collectives without another role."""
    ACTIVATIONS = "activations"
    """Tensors saved by autograd in forward for backward."""
    CHECKPOINTS = "activation checkpoints"
    """Inputs of blocks that backward recomputes."""
    SECONDARY = "secondary parameters"
    """The secondary copy of the parameters in each node, besides the ranks' shards (ZeRO++ hpZ)."""
    WORKSPACES = "library workspaces"
    """Workspaces of cuBLAS on a GPU, and the rounding of CUDA's caching allocator."""
    OTHER = "other"
    """Bytes of the allocator's count that no role explains; without such a count, tensors without a
    role that Python's objects refer to, by dtype and shape. Only the latter is recorded."""


MOMENTS = (Role.MOMENTUM, Role.VARIANCE)
"""Roles that Adam allocates at its first update."""
OPTIMIZER_STATES = (Role.MASTER, *MOMENTS)
MODEL_STATES = (Role.PARAMETERS, Role.GRADIENTS, *OPTIMIZER_STATES)


ROLE_OF_STATE = {
    "exp_avg": Role.MOMENTUM,
    "momentum_buffer": Role.MOMENTUM,
    "grad_avg": Role.MOMENTUM,
    "exp_avg_sq": Role.VARIANCE,
    "max_exp_avg_sq": Role.VARIANCE,
    "exp_inf": Role.VARIANCE,
    "square_avg": Role.VARIANCE,
    "acc_delta": Role.VARIANCE,
    "sum": Role.VARIANCE,
    "variance": Role.VARIANCE,
    "row_var": Role.VARIANCE,
    "col_var": Role.VARIANCE,
}
"""Names of these states in PyTorch's optimizers."""
FACTORED_STATES = {"row_var": 1, "col_var": 2}
"""Adafactor's states, averages over a dim of a matrix: the dim, the last one being 1."""


OUTSIDE_THE_MODEL = "outside the model"
"""The unit of states kept by modules that the models call but do not contain."""


NOT_REDUCED_YET = "not reduced yet"
"""The unit of gradients that a system keeps internally from one micro-step to the next."""


class Moment(StrEnum):
    """The moment of a memory sample."""

    BEGIN = "begin"
    """An event began."""
    END = "end"
    """An event ended."""
    PHASE = "phase"
    """A phase began."""
    RECOMPUTED = "recomputed"
    """Inside a unit's backward: its activations had been recomputed."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Live bytes of one role for one unit.

    Attributes:
        unit: "" if unknown; for memory without a role, its dtype and shape, with a row of ""
            for each search.
        bytes: bytes of the live storages, or of the files; 0 if there are none left.
        tier: the tier of the bytes.
    """

    role: Role
    unit: str
    bytes: int
    tier: Tier = Tier.DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlace:
    """A role, a unit and a tier, named once: short rows refer to them by a number.

    Attributes: as in `Holding`, except for
        number: the number by which short rows refer to it.
    """

    number: int
    role: Role
    unit: str
    tier: Tier = Tier.DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """Changes of memory since the previous sample.

    Attributes:
        number: counted from 0 on its rank.
        event: id of the event that began, ended or was open at the sample; None at the beginning of
            a phase.
        changes: the roles and units whose bytes changed, with the new bytes.
        unrecorded_bytes: bytes over all roles that the allocator's record lacks: those allocated
            before it began or by another thread.
        allocated_bytes: live bytes as counted by the device's allocator; None if not queried
            (between phase borders) or known only later (CPU).
        peak_bytes: the allocator's peak so far; None in the same cases.
    """

    number: int
    event: int | None
    moment: Moment
    iteration: int
    micro_step: int
    phase: Phase
    time_ns: int
    changes: tuple[Holding, ...]
    unrecorded_bytes: int = 0
    allocated_bytes: int | None = None
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocations:
    """Allocations as recorded by PyTorch, written after an iteration.

    They are counted from the beginning of the trace, without earlier allocations.

    Attributes:
        numbers: numbers of the samples concerned, ascending.
        allocated_bytes: live bytes at each of them.
        peak_bytes: the peak since the previous sample.
    """

    numbers: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    peak_bytes: tuple[int, ...]


class MapMoment(StrEnum):
    """The moment of an address map."""

    PHASE = "phase"
    """A phase began."""
    PEAK = "peak"
    """The peak of the iteration."""
    FULL = "full"
    """An allocation failed for lack of room."""


@dataclass(frozen=True, slots=True)
class AddressBlock:
    """A range of addresses in use for one purpose; neighbours of the same purpose are merged.

    Attributes:
        bytes: size, rounded up to the alignment.
        role: `Role.OTHER` if the purpose is unknown.
    """

    offset: int
    bytes: int
    role: Role
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressMap:
    """The address map of a device with a memory limit.

    Attributes:
        blocks: in the order of their addresses; the rest is free.
    """

    moment: MapMoment
    iteration: int
    micro_step: int
    phase: Phase
    time_ns: int
    limit_bytes: int
    blocks: tuple[AddressBlock, ...]

    @property
    def used_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.bytes for block in self.blocks)

    @property
    def free_bytes(self) -> int:
        """Free bytes, in any number of pieces."""
        return self.limit_bytes - self.used_bytes

    @property
    def largest_free_bytes(self) -> int:
        """The largest free piece."""
        largest, end = 0, 0
        for block in self.blocks:
            largest, end = max(largest, block.offset - end), block.offset + block.bytes
        return max(largest, self.limit_bytes - end)

    @property
    def largest_free_share(self) -> float:
        """The largest free block over all free bytes; 1 if nothing is free."""
        return self.largest_free_bytes / self.free_bytes if self.free_bytes else 1.0

    @property
    def fragmentation(self) -> float:
        """The share of the free bytes that lies outside the largest free block."""
        return 1.0 - self.largest_free_share
