"""What of a process is recorded."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.config import Light


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """What of a process is recorded beside its collectives.

    Attributes:
        wire: what the kernel counts on its TCP connections.
        allocations: PyTorch's own record of what a thread allocates on the CPU.
        light: of which iterations collectives are recorded, and nothing of time and memory; None
            for all that there is of all of them.
        check_replicas: of each so manyth iteration checksums are recorded; 0 for none.
    """

    wire: bool = True
    memory: bool = True
    allocations: bool = False
    light: Light | None = None
    check_replicas: int = 0

    def checks(self, iteration: int) -> bool:
        """Whether checksums of an iteration are recorded."""
        return self.check_replicas > 0 and iteration >= 0 and iteration % self.check_replicas == 0

    @property
    def looks_at_memory(self) -> bool:
        """Whether what is alive is recorded, by role, at each event."""
        return self.memory and self.light is None

    def takes(self, iteration: int) -> bool:
        """Whether an iteration is recorded."""
        return self.light is None or self.light.takes(iteration)
