"""A run under changed conditions: in a sentence, and as a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from zerosim.analysis import CriticalPath, GraphReport
from zerosim.analysis.report import milliseconds, shares_of
from zerosim.base.errors import ConfigError
from zerosim.base.language import enumerated, listed, term
from zerosim.predict.placement.changes import Changed, Changes
from zerosim.predict.placement.disturbed import Disturbed
from zerosim.predict.placement.place import place
from zerosim.predict.placement.straggler import Straggler
from zerosim.record import Trace
from zerosim.schema.manifest import Source
from zerosim.view.reading.wording import said


def predict(trace: Trace, changes: Changes) -> tuple[Trace, Straggler | None]:
    """The run with changes, and the rank that was treated as the straggler, if any.

    Raises:
        ConfigError: nothing would change.
        TraceError: the events wait for each other in a cycle.
    """
    if changes == Changes():
        raise ConfigError(
            "no change was given: give one of bandwidth, latency, compute, batch, bus, disk, "
            "no-straggler, overlap, serial, slow, jitter"
        )
    costs = Changed(changes)
    unequal = Disturbed(costs, changes.slow, jitter=changes.jitter, seed=changes.seed)
    placed = place(trace, unequal, changes.schedule)
    manifest = replace(trace.manifest, source=Source.PREDICTED)
    return replace(placed, manifest=manifest), costs.straggler


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One iteration, recorded and predicted.

    Attributes:
        changes: the changed conditions.
        before: the report of the event graph for the recorded iteration.
        after: the report for the predicted iteration.
        straggler: the rank whose times were replaced by those of the others, if any.
    """

    changes: Changes
    before: GraphReport
    after: GraphReport
    straggler: Straggler | None = None

    @property
    def share(self) -> float:
        """The predicted time as a fraction of the recorded one."""
        before, after = _path(self.before), _path(self.after)
        return after.duration_ns / before.duration_ns if before.duration_ns else 1.0

    @property
    def headline(self) -> str:
        """The answer in two sentences."""
        before, after = _path(self.before), _path(self.after)
        return said(
            "whatif.headline_predicted" if self.before.is_predicted else "whatif.headline",
            condition=self._condition(),
            iteration=self.after.iteration,
            takes=milliseconds(after.duration_ns),
            took=milliseconds(before.duration_ns),
            share=f"{self.share:.2f}",
            each=self._each(),
            after=_causes(after),
            before=_causes(before),
        )

    def _each(self) -> str:
        batch = self.changes.batch
        return "" if batch == 1 else said("whatif.each", share=f"{self.share / batch:.2f}")

    def _condition(self) -> str:
        changes = self.changes
        factors = {
            name: getattr(changes, name)
            for name in ("bandwidth", "latency", "bus", "disk", "compute", "batch")
        }
        parts = [
            said(f"whatif.{name}", factor=f"{factor:g}")
            for name, factor in factors.items()
            if factor != 1
        ]
        if changes.without_straggler:
            parts.append(self._without())
        if changes.overlap is not None:
            parts.append(said("whatif.overlap" if changes.overlap else "whatif.serial"))
        if changes.slow:
            parts.append(
                enumerated(
                    said("whatif.slow", rank=rank, factor=f"{factor:g}")
                    for rank, factor in changes.slow.items()
                )
            )
        if changes.jitter:
            jitter = f"{changes.jitter:g}"
            parts.append(said("whatif.jitter", jitter=jitter, seed=changes.seed))
        return listed(parts)

    def _without(self) -> str:
        one = self.straggler
        if one is None or one.rank < 0:
            return said("whatif.no_straggler")
        own, others = (milliseconds(ns) for ns in one.own_ns)
        return said("whatif.straggler", rank=one.rank, own=own, others=others)

    def to_plain(self) -> dict[str, Any]:
        """As JSON values; predicted ones are labelled."""
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
    return enumerated(f"{share} % {term(cause)}" for cause, share in shares) or said(
        "whatif.nothing"
    )
