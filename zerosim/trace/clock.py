"""Injected time: a recorder takes a clock, so that a test can pass its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The source of a recorder's time."""

    def now_ns(self) -> int:
        """Nanoseconds on a clock that never goes back, equal on all ranks of a host."""
        ...

    def wall_ns(self) -> int:
        """Nanoseconds since 1970, to align the clocks of several hosts."""
        ...


class SystemClock:
    """The kernel's monotonic clock, shared by all processes of a host."""

    now_ns = staticmethod(time.monotonic_ns)
    """Nanoseconds since the host started."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""
        return time.time_ns()
