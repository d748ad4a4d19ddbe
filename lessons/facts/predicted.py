"""Predictions: of dry runs, and of recorded runs if something were different."""

from __future__ import annotations

from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link
from zerosim.lessons.facts.base import Base
from zerosim.predict.placement import Changes, Machine, load_machine

_CHANGES = {
    "no straggler": Changes(without_straggler=True),
    "ten times the bandwidth": Changes(bandwidth=10),
    "computing twice as fast": Changes(compute=2),
    "overlap": Changes(overlap=True),
}


class PredictionFacts(Base):
    """Facts about predicted times."""

    def tokens(self, run: str) -> int:
        """Sequences of a rank's micro-batch."""
        said = self._run(run).trace.manifest.run
        batch, length = said["batch"], said["context_length"]
        assert isinstance(batch, int), run
        assert isinstance(length, int), run
        return batch * length

    def peak_teraflops(self, run: str) -> float:
        """C: peak FLOPs per second of a device."""
        return self._machine(run).flops_per_second / 1e12

    def device_gigabytes(self, run: str) -> float:
        """Inter-node bandwidth of a device, GB/s."""
        return self._machine(run).link(Link.NETWORK).bytes_per_second / 1e9

    def node_gigabytes(self, run: str) -> float:
        """W: inter-node bandwidth of a node, GB/s."""
        size = self._machine(run).ranks_per_node
        assert size is not None, run
        return size * self.device_gigabytes(run)

    def hides_from(self, run: str) -> float:
        """C / W: number of tokens per device whose computation takes as long as a gather."""
        return 1e3 * self.peak_teraflops(run) / self.node_gigabytes(run)

    def would_take(self, run: str, change: str) -> float:
        """The predicted time of a recorded step, as a fraction of the recorded one.

        Raises:
            ConfigError: there is no such change.
        """
        if change not in _CHANGES:
            raise ConfigError(f"change is {change!r}: expected one of {', '.join(_CHANGES)}")
        prediction, _ = self._run(run).what_if(_CHANGES[change])
        return prediction.share

    def would_take_ms(self, run: str, change: str) -> float:
        """The same in milliseconds."""
        prediction, _ = self._run(run).what_if(_CHANGES[change])
        assert prediction.after.path is not None, run
        return prediction.after.path.duration_ns / 1e6

    def _machine(self, run: str) -> Machine:
        return load_machine(self._run(run).trace.manifest.machine)
