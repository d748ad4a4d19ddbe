"""Unequal ranks: stragglers, and computations that vary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from zerosim.analysis.graph.table import Ints
from zerosim.base.errors import ConfigError
from zerosim.predict.placement.costs import Costs, Tasks, whole_ns
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.sharing import Needs


class Disturbed:
    """Any costs, on unequal ranks."""

    def __init__(
        self, costs: Costs, slow: Mapping[int, float] | None = None, *, jitter: float, seed: int
    ) -> None:
        """Start from the costs of equal ranks.

        Args:
            slow: by rank, factor of its computing time.
            jitter: the standard deviation of the logarithm of a factor on each computation.
            seed: random seed of these factors; the same seed gives the same run.
        """
        self._costs, self._slow = costs, dict(slow or {})
        self._jitter, self._seed = jitter, seed

    def computations(self, tasks: Tasks) -> Ints:
        """The base cost times the factors of rank and moment.

        Raises:
            ConfigError: a rank in `slow` does not exist.
        """
        factors = np.ones(len(tasks.rows))
        known = np.unique(tasks.rank).tolist()
        for rank, factor in self._slow.items():
            if rank not in known:
                raise ConfigError(
                    f"slow names rank {rank}: expected one of {', '.join(map(str, known))}"
                )
            factors[tasks.rank == rank] = factor
        if self._jitter:
            noise = np.random.default_rng(self._seed)
            factors *= noise.lognormal(0, self._jitter, len(factors))
        return whole_ns(self._costs.computations(tasks) * factors)

    def collectives(self, tasks: Tasks) -> Ints:
        """The base cost, unchanged."""
        return self._costs.collectives(tasks)

    def messages(self, tasks: Tasks) -> Ints:
        """The base cost, unchanged."""
        return self._costs.messages(tasks)

    def copies(self, tasks: Tasks) -> Ints:
        """The base cost, unchanged."""
        return self._costs.copies(tasks)

    def lags(self, network: Network) -> Ints:
        """Those of the base costs, unchanged."""
        return self._costs.lags(network)

    def offsets(self, network: Network) -> Ints:
        """Those of the base costs, unchanged."""
        return self._costs.offsets(network)

    def needs(self, tasks: Tasks, /) -> list[Needs] | None:
        """Those of the base costs, unchanged."""
        return self._costs.needs(tasks)
