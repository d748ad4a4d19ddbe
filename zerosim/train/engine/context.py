"""The shared objects of a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.base.config import EngineConfig
from zerosim.schema.manifest import BucketLayout
from zerosim.train.collectives import Collectives, Executor, Handle
from zerosim.train.collectives.executor import Done
from zerosim.train.engine.buckets import ConstantBuffers
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.offload import Disk
from zerosim.train.offload.copies import Copies


@dataclass(frozen=True, slots=True)
class Context:
    """The shared objects of a stage.

    Attributes:
        units: in order of registration of their modules.
        buckets: in the order in which backward completes them.
        executor: runs the collectives, one after another.
        copies: runs the copies between the device and the host.
        disk: this rank's state on a disk; None if there is none.
        buffers: constant buffers of buckets with several pieces; None for fresh memory.
    """

    config: EngineConfig
    collectives: Collectives
    units: Sequence[FlatUnit]
    buckets: Sequence[BucketLayout]
    executor: Executor
    copies: Copies
    disk: Disk | None = None
    buffers: ConstantBuffers | None = None

    @property
    def num_ranks(self) -> int:
        """Number of ranks among which the states are divided."""
        return self.collectives.group.size

    @property
    def rank(self) -> int:
        """This rank's position in the group."""
        return self.collectives.group.rank

    @property
    def communicates(self) -> bool:
        """False for a group of one."""
        return self.num_ranks > 1

    def owner(self, flat: FlatUnit) -> int:
        """Index in the group of the rank that owns a unit; owners are assigned
        round-robin.
        """
        return self.units.index(flat) % self.num_ranks

    def owns(self, flat: FlatUnit) -> bool:
        """Whether this rank is the owner."""
        return self.owner(flat) == self.rank

    def updated_rows(self, flat: FlatUnit) -> range:
        """The rows of a unit whose optimizer states are on this rank.

        These are all rows in stage 0, and all or none if units have owners that update them.
        """
        if self.config.owners_update:
            return range(self.num_ranks if self.owns(flat) else 0)
        if self.config.stage == 0:
            return range(self.num_ranks)
        return range(self.rank, self.rank + 1)

    def order_after(self, handle: Handle) -> None:
        """Make later collectives wait for another handle first."""
        if not isinstance(handle, Done):
            self.executor.submit(handle.wait)
