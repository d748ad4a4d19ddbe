"""The rules of each stage: what a step does to what the ranks hold when it begins and when it ends.

Imports the standard library, zerosim's L0 and its siblings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zerosim.analysis.frames.copying import Copying
from zerosim.analysis.frames.gathers import Gathers
from zerosim.analysis.frames.holdings import Holdings
from zerosim.analysis.frames.layout import Layout
from zerosim.analysis.frames.ledger import Ledger
from zerosim.analysis.frames.reductions import Reductions
from zerosim.analysis.frames.step import Step
from zerosim.events import Event, Kind, Phase, Purpose
from zerosim.manifest import BucketLayout
from zerosim.memory import Role

FROZEN = ".frozen"
"""What the engine adds to a module's name for its parameters that are not trained."""


class Rules:
    """Plays steps on the holdings, and keeps track of the cells that change."""

    def __init__(
        self, layout: Layout, buckets: Sequence[BucketLayout], steps: Sequence[Step]
    ) -> None:
        """Begin with what the layout says."""
        self.layout = layout
        self.holdings = Holdings(layout)
        self.ledger = Ledger(layout, self.holdings)
        self.gathers = Gathers(self.ledger)
        self.reductions = Reductions(self.ledger, buckets)
        self.copying = Copying(self.ledger)
        self.left = Counter(
            _of_backward(event)
            for step in steps
            if (event := step.event) is not None and _is_backward(event)
        )
        computed = {
            event.unit
            for step in steps
            if (event := step.event) is not None and step.kind is Kind.COMPUTE
        }
        self.beside = {
            unit.removesuffix(FROZEN): unit
            for unit in layout.trainable
            if unit.endswith(FROZEN) and unit not in computed
        }

    def begin(self, step: Step) -> None:
        """A step begins."""
        event = step.event
        if step.kind is Kind.MARK:
            self._begin_phase(step.phase)
        elif event is None:
            return
        elif step.kind is Kind.COPY:
            self.copying.begin(step)
        elif step.kind is Kind.COMPUTE and event.unit in self.ledger.units:
            self._begin_computation(step, event)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS and event.unit in self.ledger.units:
                self.gathers.begin(step, event.unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self.reductions.begin(step, event)

    def end(self, step: Step) -> None:
        """A step is over."""
        event = step.event
        if event is None:
            return
        if step.kind is Kind.COPY:
            self.copying.end(step)
        elif step.kind is Kind.COMPUTE and event.unit in self.ledger.units:
            self._end_computation(step, event)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS and event.unit in self.ledger.units:
                self.gathers.end(step, event.unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self.reductions.end(step, event)

    def _computed_with(self, unit: str) -> tuple[str, ...]:
        """A unit, and its module's frozen parameters, which no event of their own computes."""
        return (unit, self.beside[unit]) if unit in self.beside else (unit,)

    def _begin_phase(self, phase: Phase) -> None:
        """What was gathered and not used is dropped; after the update the gradients are."""
        for rank in self.layout.ranks:
            for unit in self.ledger.units:
                if self.layout.stage == 3:
                    self.holdings.free_parameters(rank, unit)
                    self.ledger.touch(rank, Role.PARAMETERS, unit)
                if phase is Phase.OUTSIDE:
                    self.ledger.touch(rank, Role.GRADIENTS, unit)
                    self.holdings.secondary.pop((rank, unit), None)
                    self.ledger.touch(rank, Role.SECONDARY, unit)
            if phase is Phase.OUTSIDE:
                self.holdings.end_update(rank)

    def _begin_computation(self, step: Step, event: Event) -> None:
        for rank in step.events:
            if event.phase is Phase.UPDATE:
                self.holdings.update(rank, event.unit)
                continue
            for unit in self._computed_with(event.unit):
                self.holdings.compute(rank, unit)

    def _end_computation(self, step: Step, event: Event) -> None:
        unit, is_stage_3 = event.unit, self.layout.stage == 3
        makes_gradient = False
        if _is_backward(event):
            # a unit that is recomputed, or used twice, has its gradient after the last time
            self.left[_of_backward(event)] -= 1
            makes_gradient = not self.left[_of_backward(event)]
        for rank in step.events:
            if event.phase is Phase.UPDATE:
                self.holdings.updated(rank, unit)
                for band in self.layout.states:
                    self.ledger.touch(rank, band.role, unit)
                continue
            for one in self._computed_with(unit):
                if self.layout.secondary > 1 and event.phase is Phase.FORWARD:
                    self.holdings.secondary[rank, one] = set(self.layout.secondary_part(rank))
                    self.ledger.touch(rank, Role.SECONDARY, one)
                if is_stage_3 and (makes_gradient or event.phase is Phase.FORWARD):
                    self.holdings.free_parameters(rank, one)
                    self.ledger.touch(rank, Role.PARAMETERS, one)
            if makes_gradient and self.layout.trainable[unit]:
                self.holdings.make_gradient(rank, unit)
                self.ledger.touch(rank, Role.GRADIENTS, unit)


def _is_backward(event: Event) -> bool:
    return event.kind is Kind.COMPUTE and event.phase is Phase.BACKWARD


def _of_backward(event: Event) -> tuple[int, str]:
    return event.micro_step, event.unit
