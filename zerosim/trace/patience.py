"""Suspends PyTorch's timeouts while ranks are paused.

The timeouts of all groups and of the store are extended, and restored when the gate opens.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import torch
import torch.distributed as dist

from zerosim.trace.gate import PATIENCE


class TimeoutsFarOff:
    """Extended timeouts of PyTorch, and their previous values."""

    def __init__(self) -> None:
        self._groups: dict[str, tuple[Any, timedelta]] = {}
        self._store: tuple[Any, timedelta] | None = None
        self._num_groups = -1
        self._lock = threading.Lock()

    def take(self) -> None:
        """Extend the timeouts of all current groups."""
        groups = dist.distributed_c10d._world.pg_map
        if len(groups) == self._num_groups:
            return
        with self._lock:
            self._num_groups = len(groups)
            for group in list(groups):
                if group.group_name not in self._groups:
                    self._take_group(group)
            if self._store is None and dist.is_initialized():
                store = dist.distributed_c10d._get_default_store()
                self._store = store, cast("Any", store).timeout
                store.set_timeout(PATIENCE)

    def _take_group(self, group: Any) -> None:
        for device in group._device_types:
            with suppress(RuntimeError, AttributeError):  # a backend without timeouts
                backend = group._get_backend(torch.device(device))
                before = backend.options._timeout
                backend._set_default_timeout(PATIENCE)
                self._groups.setdefault(group.group_name, (backend, before))

    def give_back(self) -> None:
        """Restore the previous timeouts."""
        with self._lock, suppress(RuntimeError, AttributeError):
            for backend, before in self._groups.values():
                backend._set_default_timeout(before)
            if self._store is not None:
                self._store[0].set_timeout(self._store[1])
            self._groups.clear()
            self._store = None
