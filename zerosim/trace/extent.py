"""The scope of a recording."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.config import Light


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The scope of a recording, in addition to collectives.

    Attributes:
        wire: the kernel's byte counters of its TCP connections.
        allocations: PyTorch's record of a thread's CPU allocations.
        light: record collectives of some iterations, without times and memory; None for a full
            trace.
        check_replicas: interval of iterations with checksums; 0 for none.
    """

    wire: bool = True
    memory: bool = True
    allocations: bool = False
    light: Light | None = None
    check_replicas: int = 0

    def checks(self, iteration: int) -> bool:
        """Whether an iteration has checksums."""
        return self.check_replicas > 0 and iteration >= 0 and iteration % self.check_replicas == 0

    @property
    def looks_at_memory(self) -> bool:
        """Whether live tensors are recorded, by role, at each event."""
        return self.memory and self.light is None

    def takes(self, iteration: int) -> bool:
        """Whether an iteration is recorded."""
        return self.light is None or self.light.takes(iteration)
