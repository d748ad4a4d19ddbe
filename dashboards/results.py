"""What is made of a trace, each made once, however many browsers ask for it at the same time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from zerosim.base.language import Language, spoken
from zerosim.dashboards.entry import TraceEntry

MAKERS = 2
"""Results that are made at the same time: each may need memory of its own."""

T = TypeVar("T")
Key = tuple[str, str, str, Language, int | None]
"""Name, folder and signature of a trace, the language of what is made, an iteration."""


class Results(Generic[T]):
    """Makes results and keeps the ones that were asked for last."""

    def __init__(
        self,
        make: Callable[[TraceEntry, int | None], T],
        weigh: Callable[[T], int],
        most: int,
    ) -> None:
        """Keep nothing as yet.

        Args:
            make: a result of one iteration of a trace; None is the last complete one.
            weigh: how much a result counts.
            most: how much is kept; a result that weighs more is made each time.
        """
        self._make, self._weigh, self._most = make, weigh, most
        self._lock = threading.Lock()
        self._makers = threading.BoundedSemaphore(MAKERS)
        self._kept: OrderedDict[Key, T] = OrderedDict()
        self._weight = 0
        self._under_way: dict[Key, Future[T]] = {}

    def get(self, entry: TraceEntry, iteration: int | None = None) -> T:
        """The result of one iteration, by default the last complete one.

        Raises:
            TraceError: the trace is damaged, or has no such iteration.
        """
        key = (entry.name, str(entry.folder), entry.signature, spoken(), iteration)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            future = self._under_way.get(key)
            is_ours = future is None
            if future is None:
                future = self._under_way[key] = Future()
        if is_ours:
            self._fulfil(future, key, entry)
        return future.result()

    def _fulfil(self, future: Future[T], key: Key, entry: TraceEntry) -> None:
        try:
            with self._makers:
                result = self._make(entry, key[-1])
        except BaseException as error:  # noqa: BLE001 - all who wait for it are told
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
        else:
            with self._lock:
                self._keep(key, result)
                del self._under_way[key]
            future.set_result(result)

    def _keep(self, key: Key, result: T) -> None:
        # a trace that is still growing leaves results behind that nobody asks for any more
        for old in [k for k in self._kept if k[:2] == key[:2] and k[2] != key[2]]:
            self._drop(old)
        self._kept[key] = result
        self._weight += self._weigh(result)
        while self._weight > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        self._weight -= self._weigh(self._kept.pop(key))
