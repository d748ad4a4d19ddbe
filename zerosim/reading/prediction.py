"""What would happen if something about a run were different: in a sentence, and as a run.

Imports zerosim's L0, record, analysis, placement and `run`'s neighbours.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from zerosim.analysis import CriticalPath, GraphReport
from zerosim.analysis.report import milliseconds, shares_of
from zerosim.errors import ConfigError
from zerosim.manifest import Source
from zerosim.placement.changes import Changed, Changes
from zerosim.placement.disturbed import Disturbed
from zerosim.placement.place import place
from zerosim.placement.straggler import Straggler
from zerosim.record import Trace


def predict(trace: Trace, changes: Changes) -> tuple[Trace, Straggler | None]:
    """The run with changes, and which rank was taken for the straggler, if one was.

    Raises:
        ConfigError: nothing would change.
        TraceError: the events wait for each other in a circle.
    """
    if changes == Changes():
        raise ConfigError(
            "nothing is said to change: give one of bandwidth, latency, compute, batch, bus, disk, "
            "no-straggler, overlap, serial, slow, jitter"
        )
    costs = Changed(changes)
    unequal = Disturbed(costs, changes.slow, jitter=changes.jitter, seed=changes.seed)
    placed = place(trace, unequal, changes.schedule)
    manifest = replace(trace.manifest, source=Source.PREDICTED)
    return replace(placed, manifest=manifest), costs.straggler


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One iteration as it was and as it would be.

    Attributes:
        changes: what would be different.
        before: what the event graph says of the iteration as it was recorded.
        after: what it says of it as it is predicted.
        straggler: which rank was made like the others, if one was.
    """

    changes: Changes
    before: GraphReport
    after: GraphReport
    straggler: Straggler | None = None

    @property
    def share(self) -> float:
        """Which part of the recorded time the predicted one is."""
        before, after = _path(self.before), _path(self.after)
        return after.duration_ns / before.duration_ns if before.duration_ns else 1.0

    @property
    def headline(self) -> str:
        """The answer in two sentences."""
        before, after = _path(self.before), _path(self.after)
        was = "predicted without that" if self.before.is_predicted else "recorded"
        took, takes = milliseconds(before.duration_ns), milliseconds(after.duration_ns)
        return (
            f"Predicted: {self._condition()}, iteration {self.after.iteration} would take "
            f"{takes} ms instead of {took} ms, {self.share:.2f} of the time{self._each()}. Its "
            "critical path "
            f"would be {_causes(after)}; as {was} it is {_causes(before)}."
        )

    def _each(self) -> str:
        batch = self.changes.batch
        return "" if batch == 1 else f", {self.share / batch:.2f} of it for a sequence"

    def _condition(self) -> str:
        changes = self.changes
        said = [
            f"with {_times(changes.bandwidth)} the bandwidth between ranks",
            f"with {_times(changes.latency)} the latency",
            f"with {_times(changes.bus)} the bandwidth between device and host",
            f"with {_times(changes.disk)} the bandwidth of the disk",
            f"with computations {_times(changes.compute)} as fast",
            f"with {_times(changes.batch)} the sequences in a micro-batch",
            self._without(),
            "with communication hidden where it can be",
            "with nothing beside the communication",
            ", ".join(
                f"with computations of rank {rank} taking {_times(factor)} as long"
                for rank, factor in changes.slow.items()
            ),
            f"with computations that vary by {changes.jitter:g} (seed {changes.seed})",
        ]
        is_said = [
            changes.bandwidth != 1, changes.latency != 1, changes.bus != 1, changes.disk != 1,
            changes.compute != 1, changes.batch != 1, changes.without_straggler,
            changes.overlap is True, changes.overlap is False,
            bool(changes.slow), changes.jitter != 0,
        ]  # fmt: skip
        parts = [words for words, applies in zip(said, is_said, strict=True) if applies]
        return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))

    def _without(self) -> str:
        one = self.straggler
        if one is None or one.rank < 0:
            return "without a straggler, as there is but one rank"
        own, others = (milliseconds(ns) for ns in one.own_ns)
        works = f"its own work took {own} ms, theirs {others} ms"
        return f"with rank {one.rank} as fast as the others ({works})"

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON knows; what is predicted says so."""
        before, after = _path(self.before), _path(self.after)
        changes = asdict(self.changes)
        changes["slow"] = {str(rank): factor for rank, factor in self.changes.slow.items()}
        return {
            "headline": self.headline,
            "iteration": self.after.iteration,
            "changes": changes,
            "straggler": None if self.straggler is None else self.straggler.rank,
            "is_recorded_predicted": self.before.is_predicted,
            "recorded_ns": before.duration_ns,
            "predicted_ns": after.duration_ns,
            "recorded_by_cause_ns": {cause.value: ns for cause, ns in before.by_cause().items()},
            "predicted_by_cause_ns": {cause.value: ns for cause, ns in after.by_cause().items()},
        }


def _path(report: GraphReport) -> CriticalPath:
    assert report.path is not None, "what was placed has no cycle"
    return report.path


def _causes(path: CriticalPath) -> str:
    shares = shares_of(path.by_cause())
    return ", ".join(f"{share} % {cause}" for cause, share in shares) or "nothing"


def _times(factor: float) -> str:
    return f"{factor:g} times"
