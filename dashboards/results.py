"""Results of a trace, each computed once, for any number of concurrent browsers."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from zerosim.base.language import Language, spoken
from zerosim.dashboards.entry import TraceEntry

MAKERS = 2
"""Maximum number of concurrent computations: each may need memory of its own."""

T = TypeVar("T")
Key = tuple[str, str, str, Language, int | None]
"""Name, folder and signature of a trace, the language of the result, an iteration."""


class Results(Generic[T]):
    """Computes results and caches the most recent ones."""

    def __init__(
        self,
        make: Callable[[TraceEntry, int | None], T],
        weigh: Callable[[T], int],
        most: int,
    ) -> None:
        """Create an empty cache.

        Args:
            make: computes a result of one iteration of a trace; None is the last complete one.
            weigh: the weight of a result.
            most: size of the cache; a result that weighs more is computed each time.
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
        except BaseException as error:  # noqa: BLE001 - all waiters get the error
            with self._lock:
                del self._under_way[key]
            future.set_exception(error)
        else:
            with self._lock:
                self._keep(key, result)
                del self._under_way[key]
            future.set_result(result)

    def _keep(self, key: Key, result: T) -> None:
        # a growing trace leaves results behind that are not requested any more
        for old in [k for k in self._kept if k[:2] == key[:2] and k[2] != key[2]]:
            self._drop(old)
        self._kept[key] = result
        self._weight += self._weigh(result)
        while self._weight > self._most:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Key) -> None:
        self._weight -= self._weigh(self._kept.pop(key))
