"""What if: the recorded times of a run, with changes.

The time of a transfer is split into a latency and a time per byte, by a line through all transfers
over the same link in the same way; deviations of single events are scaled in proportion.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from zerosim.analysis.graph.table import Ints
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link, link_of_copy, link_of_message
from zerosim.predict.placement.costs import Recorded, Tasks, whole_ns
from zerosim.predict.placement.fitting import fit_line
from zerosim.predict.placement.network import Network
from zerosim.predict.placement.schedule import overlapped, serial
from zerosim.predict.placement.straggler import Straggler, find_straggler
from zerosim.record import ranks_per_node
from zerosim.schema.events import Phase, Purpose

_OF_BATCH = (Phase.FORWARD, Phase.BACKWARD)
_ACTIVATIONS = (
    *(Purpose.ACTIVATIONS, Purpose.SEND_ACTIVATIONS, Purpose.SEND_GRADIENTS),
    *(Purpose.GATHER_ACTIVATIONS, Purpose.OFFLOAD_ACTIVATIONS, Purpose.FETCH_ACTIVATIONS),
)
"""Purposes that grow with the sequences of a micro-batch."""

_LARGEST = 1e9
"""Limit of factors; no machine is beyond it."""
_WILDEST = 10.0
"""Limit of jitter: one computation in twenty would take e^20 times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changed conditions. A factor of 1 means no change.

    Attributes:
        compute: factor of the computing speed of units.
        batch: factor of the number of sequences in a micro-batch: it multiplies the times of
            forward and backward and the bytes of activations; the trace keeps its bytes.
        bandwidth: factor of the bandwidth between ranks.
        latency: factor of the latency of a message.
        bus, disk: factors of the bandwidth between device and host, and to and from the disk.
        without_straggler: whether the slowest rank becomes as fast as the others.
        overlap: True if communication is hidden wherever possible, False if nowhere; None:
            unchanged.
        slow: by rank, factor of its computing time.
        jitter: variation of computations: the standard deviation of the logarithm of a factor.
        seed: random seed of the jitter.
    """

    compute: float = 1.0
    batch: float = 1.0
    bandwidth: float = 1.0
    latency: float = 1.0
    bus: float = 1.0
    disk: float = 1.0
    without_straggler: bool = False
    overlap: bool | None = None
    slow: dict[int, float] = field(default_factory=dict)
    jitter: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Reject changes of things that the run does not have.

        Raises:
            ConfigError: a factor that is not above 0, or a jitter below it.
        """
        for name in ("compute", "batch", "bandwidth", "latency", "bus", "disk"):
            _require_factor(name, getattr(self, name))
        for rank, factor in self.slow.items():
            _require_factor(f"slow of rank {rank}", factor)
        if not 0 <= self.jitter <= _WILDEST:
            raise ConfigError(f"jitter is {self.jitter:g}: expected 0 or more, to {_WILDEST:g}")

    @property
    def schedule(self) -> Callable[[Network], Network] | None:
        """The change of the order of events; None if it is unchanged."""
        if self.overlap is None:
            return None
        return overlapped if self.overlap else serial


def _require_factor(name: str, factor: float) -> None:
    if not 1 / _LARGEST <= factor <= _LARGEST:
        raise ConfigError(
            f"{name} is {factor:g}: expected a factor above 0, of {1 / _LARGEST:g} to "
            f"{_LARGEST:g}, such as x2 or x0.5"
        )


class Changed(Recorded):
    """The recorded times with changes."""

    def __init__(self, changes: Changes) -> None:
        """The costs for the run that is placed."""
        self._changes = changes
        self.straggler: Straggler | None = None

    def lags(self, network: Network) -> Ints:
        """The straggler's own code takes as long as that of others."""
        if not self._changes.without_straggler:
            return network.lag
        self.straggler = find_straggler(network)
        return self.straggler.lags(network)

    def computations(self, tasks: Tasks) -> Ints:
        """The recorded times, scaled; for the straggler, those of other ranks for the same work."""
        recorded = tasks.recorded if self.straggler is None else self.straggler.computations(tasks)
        grows = np.array([one in _OF_BATCH for one in tasks.column("phase")], np.bool_)
        times = np.where(grows, self._changes.batch, 1.0) / self._changes.compute
        return whole_ns(recorded * times)

    def collectives(self, tasks: Tasks) -> Ints:
        """Scaled by the line through the calls of its operation, algorithm and number of ranks."""
        sizes = [len(ranks) for ranks in tasks.groups()]
        return self._moved(
            tasks, list(zip(tasks.column("op"), tasks.column("algorithm"), sizes, strict=True))
        )

    def messages(self, tasks: Tasks) -> Ints:
        """Each by the line through those of its link."""
        size = ranks_per_node(tasks.graph.trace)
        pairs = zip(tasks.rank.tolist(), tasks.column("peers"), strict=True)
        return self._moved(
            tasks,
            [link_of_message(rank, peers[0] if peers else rank, size) for rank, peers in pairs],
        )

    def copies(self, tasks: Tasks) -> Ints:
        """Each by the line through those of its link."""
        ways = list(zip(tasks.column("origin"), tasks.column("target"), strict=True))
        return self._moved(tasks, [link_of_copy(*way) for way in ways])

    def _moved(self, tasks: Tasks, kinds: list[object]) -> Ints:
        payload = np.array(tasks.column("payload_bytes"), np.int64)
        predicted = tasks.recorded.copy()
        grows = np.array([one in _ACTIVATIONS for one in tasks.column("purpose")], np.bool_)
        moved = payload * np.where(grows, self._changes.batch, 1.0)
        numbers: dict[object, int] = {}
        which = np.array([numbers.setdefault(kind, len(numbers)) for kind in kinds], np.int64)
        for kind, number in numbers.items():
            among = np.flatnonzero(which == number)
            latency, speed = self._factors(kind)
            if latency == speed == 1 and np.all(moved[among] == payload[among]):
                continue
            line = fit_line(payload[among], tasks.recorded[among])
            now = line.latency_ns * latency + line.ns_per_byte * moved[among] / speed
            was = np.maximum(line.at(payload[among]), 1e-9)
            predicted[among] = whole_ns(tasks.recorded[among] * (now / was))
        return predicted

    def _factors(self, kind: object) -> tuple[float, float]:
        """The factors of latency and bandwidth."""
        if kind is Link.BUS:
            return 1.0, self._changes.bus
        if kind is Link.STORAGE:
            return 1.0, self._changes.disk
        return self._changes.latency, self._changes.bandwidth
