"""What memory is kept for, and the rows that say how much of it is alive.

    memory        at an event: how many bytes each role has, as far as that changed
    allocations   once an iteration: what PyTorch's own allocator counted at those events
    addresses     with a device limit, at phase borders and at the peak: what lies where

A role's bytes are those of storages that are alive, each counted once. They are kept apart by unit,
and a row says only what changed, so the state at a row is the last word on each (role, unit).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zerosim.base.tiers import Tier
from zerosim.schema.events import Phase


class Role(StrEnum):
    """What memory is kept for. The first five are the model states."""

    PARAMETERS = "parameters"
    """What this rank keeps between iterations: all of them, or its shard."""
    GRADIENTS = "gradients"
    MASTER = "fp32 master"
    """fp32 copy of the parameters, below fp32 only."""
    MOMENTUM = "momentum"
    VARIANCE = "variance"
    GATHERED = "gathered parameters"
    """Whole units that exist only while they are computed with."""
    BUFFERS = "communication buffers"
    """What a collective was given that is nothing else."""
    ACTIVATIONS = "activations"
    """What autograd saved in forward for backward."""
    CHECKPOINTS = "activation checkpoints"
    """Inputs of blocks that backward computes again."""
    SECONDARY = "secondary parameters"
    """What each node keeps of all parameters, beside the ranks' own parts (ZeRO++)."""
    WORKSPACES = "library workspaces"
    """What cuBLAS keeps for itself on a GPU."""
    OTHER = "other"
    """What no role explains of what the allocator counted; where none is asked, what Python's
    objects refer to beside the roles, by dtype and shape. Only that is recorded."""


MOMENTS = (Role.MOMENTUM, Role.VARIANCE)
"""What Adam's first update makes."""
OPTIMIZER_STATES = (Role.MASTER, *MOMENTS)
MODEL_STATES = (Role.PARAMETERS, Role.GRADIENTS, *OPTIMIZER_STATES)


OUTSIDE_THE_MODEL = "outside the model"
"""The unit of what a program's modules keep that its models call and do not have."""


NOT_REDUCED_YET = "not reduced yet"
"""The unit of gradients that a system keeps to itself from one micro-step to the next."""


class Moment(StrEnum):
    """When memory was looked at."""

    BEGIN = "begin"
    """An event began."""
    END = "end"
    """An event was over."""
    PHASE = "phase"
    """A phase began."""
    RECOMPUTED = "recomputed"
    """Inside of a unit's backward: its activations had been computed again."""


@dataclass(frozen=True, slots=True)
class Holding:
    """What one role has for one unit.

    Attributes:
        unit: "" if unknown; of what has no role its dtype and shape, and a row of "" whenever it
            was looked for.
        bytes: of the storages that are alive, or of the files; 0 if none is any more.
        tier: where they lie.
    """

    role: Role
    unit: str
    bytes: int
    tier: Tier = Tier.DEVICE


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySample:
    """What changed in memory since the sample before.

    Attributes:
        number: counted from 0 on its rank.
        event: id of the event that began or was over, or inside of which it was; None at a phase's
            beginning.
        changes: the roles and units whose bytes changed, with the new bytes.
        unrecorded_bytes: of all roles together, what the allocator's record leaves out: what was
            there before it began, and buffers that another thread allocated.
        allocated_bytes: what a device's allocator says is alive; None if it was not asked, as
            between phase borders, or tells only later (CPU).
        peak_bytes: the most that it says ever was; likewise.
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
    """What PyTorch's own record of allocations says, once an iteration is over.

    Counted from the trace's beginning: what was allocated earlier is not in it.

    Attributes:
        numbers: of the samples concerned, ascending.
        allocated_bytes: alive at each of them.
        peak_bytes: the most that was alive since the one before.
    """

    numbers: tuple[int, ...]
    allocated_bytes: tuple[int, ...]
    peak_bytes: tuple[int, ...]


class MapMoment(StrEnum):
    """When an address map was drawn."""

    PHASE = "phase"
    """A phase began."""
    PEAK = "peak"
    """The most of the iteration was in use."""
    FULL = "full"
    """There was no room for what was to be allocated."""


@dataclass(frozen=True, slots=True)
class AddressBlock:
    """Addresses in use for one purpose, with neighbours of the same purpose.

    Attributes:
        bytes: with what rounding up to the alignment added.
        role: `Role.OTHER` if nobody said what it is for.
    """

    offset: int
    bytes: int
    role: Role
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressMap:
    """What lies where in the memory of a device with a limit.

    Attributes:
        blocks: in the order of their addresses; all else is free.
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
        """Of all blocks."""
        return sum(block.bytes for block in self.blocks)

    @property
    def free_bytes(self) -> int:
        """In however many pieces."""
        return self.limit_bytes - self.used_bytes

    @property
    def largest_free_bytes(self) -> int:
        """The longest piece that is free."""
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
