"""Time, injected: a recorder is given a clock, so that a test can give it another."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a recorder reads the time."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never goes back; the same for all ranks of one host."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970, to align the clocks of several hosts."""
        ...


class SystemClock:
    """The kernel's monotonic clock, which all processes of a host share."""

    now_ns = staticmethod(time.monotonic_ns)
    """Nanoseconds since the host started."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()
