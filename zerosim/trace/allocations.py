"""PyTorch's own record of allocations on the CPU: the bytes that its allocator has not freed.

On CUDA the caching allocator can be queried at any time. On the CPU only a profiler is notified of
each allocation, on its own thread, and its record is available once it is stopped.
PyTorch's first profiler (`torch.autograd.profiler_legacy`) does that silently. It could also record
each operator, at a microsecond each. That is switched off, except for the one operator that marks a
moment.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._C import _autograd as autograd
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

_MARK = "aten::_debug_has_internal_overlap"
_MOST_MARKS = 256
"""After this many, the profiler is read, so that its memory stays bounded."""


@dataclass(slots=True)
class MarkedAllocations:
    """The live bytes at each mark.

    Attributes:
        numbers: the number given to each mark.
        allocated_bytes: counted from the record's beginning.
        peak_bytes: the peak since the previous mark.
    """

    numbers: list[int] = field(default_factory=list)
    allocated_bytes: list[int] = field(default_factory=list)
    peak_bytes: list[int] = field(default_factory=list)


class AllocationRecord:
    """Counts the bytes that the thread which created it allocates and frees."""

    def __init__(self) -> None:
        """Start counting.

        Raises:
            RuntimeError: a profiler is running in this thread.
        """
        self._thread = threading.get_ident()
        self._marked: list[int] = []
        self._alive = 0
        self._peak = 0
        self._nothing = torch.empty(0)
        _enable()

    @property
    def is_own_thread(self) -> bool:
        """True on the thread whose allocations are counted."""
        return threading.get_ident() == self._thread

    @property
    def is_full(self) -> bool:
        """True if the record should be read soon."""
        return len(self._marked) >= _MOST_MARKS

    def mark(self, number: int) -> None:
        """Mark this moment; no effect on other threads."""
        if self.is_own_thread:
            _note_operators(wanted=True)
            torch._debug_has_internal_overlap(self._nothing)
            _note_operators(wanted=False)
            self._marked.append(number)

    def read(self) -> MarkedAllocations:
        """The live bytes at the marks since the last reading."""
        events = autograd._disable_profiler_legacy()
        _enable()
        return self._count(events)

    def close(self) -> MarkedAllocations:
        """Stop counting."""
        _note_operators(wanted=True)
        return self._count(autograd._disable_profiler_legacy())

    def _count(self, threads: list[list[Any]]) -> MarkedAllocations:
        counted = MarkedAllocations()
        numbers = iter(self._marked)
        events = [event for thread in threads for event in thread]
        if len(threads) > 1:
            events.sort(key=lambda event: event.start_us())
        for event in events:
            kind = event.kind()
            if kind == "memory_alloc":
                self._alive += event.cpu_memory_usage()
                self._peak = max(self._peak, self._alive)
            elif kind == "push" and event.name() == _MARK:
                counted.numbers.append(next(numbers))
                counted.allocated_bytes.append(self._alive)
                counted.peak_bytes.append(self._peak)
                self._peak = self._alive
        self._marked = []
        return counted


def _note_operators(*, wanted: bool) -> None:
    autograd._enable_record_function(wanted)


def _enable() -> None:
    autograd._enable_profiler_legacy(
        ProfilerConfig(
            ProfilerState.CPU,
            False,  # noqa: FBT003 - input shapes
            True,  # noqa: FBT003 - memory
            False,  # noqa: FBT003 - stacks
            False,  # noqa: FBT003 - flops
            False,  # noqa: FBT003 - modules
            _ExperimentalConfig(),
        )
    )
    _note_operators(wanted=False)
