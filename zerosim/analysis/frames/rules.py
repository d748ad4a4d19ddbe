"""The rules of each stage: the effect of a step on the contents of ranks, at its start and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from zerosim.analysis.frames.copying import Copying
from zerosim.analysis.frames.gathers import Gathers
from zerosim.analysis.frames.holdings import Holdings
from zerosim.analysis.frames.layout import FROZEN, ShardLayout
from zerosim.analysis.frames.ledger import Ledger
from zerosim.analysis.frames.reductions import Reductions
from zerosim.analysis.frames.step import Step
from zerosim.schema.events import Event, Kind, Phase, Purpose
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.memory import Role


class Rules:
    """Plays steps on the holdings, and keeps track of the cells that change.

    Attributes:
        freed: units whose gathered parameters were freed after their computation, since this was
            last emptied.
    """

    def __init__(
        self, layout: ShardLayout, buckets: Sequence[BucketLayout], steps: Sequence[Step]
    ) -> None:
        """Start with the contents defined by the layout."""
        self.layout = layout
        self.holdings = Holdings(layout)
        self.ledger = Ledger(layout, self.holdings)
        self.gathers = Gathers(self.ledger)
        self.reductions = Reductions(self.ledger, buckets)
        self.copying = Copying(self.ledger)
        self.freed: dict[str, None] = {}
        self.under_way: set[tuple[int, str]] = set()
        self._reduced: set[int | None] = set()
        self.updating: dict[tuple[int, str], None] = {}
        self._gathered = _units_of_gathers(layout, steps)
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
        self.computed = {
            unit
            for step in steps
            if (event := step.event) is not None and _is_backward(event)
            for unit in layout.computed.get(event.unit, (event.unit,))
        }
        self._last_backward = {
            (rank, unit): step
            for step in steps
            if (event := step.event) is not None and _is_backward(event)
            for unit in layout.computed.get(event.unit, (event.unit,))
            for rank in step.events
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
            if step.is_over:  # otherwise nothing follows the iteration yet
                self._begin_phase(step.phase)
        elif event is None:
            return
        elif step.kind is Kind.COPY:
            self.copying.begin(step)
        elif step.kind is Kind.COMPUTE:
            self._begin_computation(step, event)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS:
                self._leave_update(step)
                self._leave_modules(step, self._units_gathered(step, event))
                for unit in self._units_gathered(step, event):
                    self.gathers.begin(step, unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self._leave_computation(step, event)
                self.reductions.begin(step, event)

    def end(self, step: Step) -> None:
        """A step ends."""
        event = step.event
        if event is None:
            return
        if step.kind is Kind.COPY:
            self.copying.end(step)
        elif step.kind is Kind.COMPUTE:
            self._end_computation(step, event)
        elif step.kind in (Kind.TRANSFER, Kind.COLLECTIVE):
            if event.purpose is Purpose.GATHER_PARAMETERS:
                for unit in self._units_gathered(step, event):
                    self.gathers.end(step, unit)
            elif event.purpose is Purpose.REDUCE_GRADIENTS:
                self.reductions.end(step, event)

    def _computed_with(self, name: str) -> tuple[str, ...]:
        """The units of a computation: for the engine including a module's frozen parameters, which
        have no computation of their own.
        """
        units = self.layout.computed.get(name, (name,))
        beside = [self.beside[unit] for unit in units if unit in self.beside]
        return tuple(unit for unit in dict.fromkeys((*units, *beside)) if unit in self.ledger.units)

    def _units_gathered(self, step: Step, event: Event) -> tuple[str, ...]:
        index = -1 if step.collective is None else step.collective
        return tuple(
            unit for unit in self._gathered.get(index, (event.unit,)) if unit in self.ledger.units
        )

    def _begin_phase(self, phase: Phase) -> None:
        """Unused gathered parameters are dropped; gradients are after the update."""
        before = Phase.FORWARD if phase is Phase.BACKWARD else Phase.BACKWARD
        for rank in self.layout.ranks:
            for unit in self.ledger.units:
                if self.layout.frees(unit, before):
                    if self.holdings.free_parameters(rank, unit) and unit not in self.computed:
                        self.freed[unit] = None  # it spans the whole model
                    self.ledger.touch(rank, Role.PARAMETERS, unit)
                if phase is Phase.OUTSIDE:
                    self.ledger.touch(rank, Role.GRADIENTS, unit)
                    self.holdings.secondary.pop((rank, unit), None)
                    self.ledger.touch(rank, Role.SECONDARY, unit)
            if phase is Phase.UPDATE:
                self._make_others(rank)
            elif phase is Phase.OUTSIDE:
                self.holdings.end_update(rank)

    def _make_others(self, rank: int) -> None:
        """Backward ended: gradients of units without a computation exist, unless reduced
        elsewhere.
        """
        for unit in self.ledger.units if self.layout.divided.calls_within else ():
            if unit not in self.computed and not self.reductions.reduces(unit):
                self._make_gradient(rank, unit)

    def _begin_computation(self, step: Step, event: Event) -> None:
        for rank in step.events:
            for unit in self._computed_with(event.unit):
                if event.phase is Phase.UPDATE:
                    if self.layout.trainable[unit]:
                        self.holdings.update(rank, unit)
                        self.updating[rank, unit] = None
                elif self.layout.divided.calls_within:
                    self.under_way.add((rank, unit))
                else:
                    self.holdings.compute(rank, unit)

    def _end_computation(self, step: Step, event: Event) -> None:
        units = self._computed_with(event.unit)
        makes_gradient = False
        if _is_backward(event):
            # a unit that is recomputed, or used twice, has its gradient after the last time
            self.left[_of_backward(event)] -= 1
            makes_gradient = not self.left[_of_backward(event)]
        for rank in step.events:
            for unit in units:
                self._grow(rank, unit, step)
                if event.phase is Phase.UPDATE:
                    self._end_update(rank, unit)
                else:
                    self._end_of_unit(rank, unit, step, makes_gradient=makes_gradient)

    def _grow(self, rank: int, unit: str, step: Step) -> None:
        """Whether later micro-steps add to a gradient that is private to this rank."""
        if step.phase is Phase.BACKWARD:
            is_alone = len(self.layout.among(rank, unit)) == 1
            grows = is_alone and self._last_backward.get((rank, unit)) is not step
            (self.holdings.growing.add if grows else self.holdings.growing.discard)((rank, unit))

    def _end_of_unit(self, rank: int, unit: str, step: Step, *, makes_gradient: bool) -> None:
        """A rank has computed with a unit."""
        event, is_forward = step.events[rank], step.phase is Phase.FORWARD
        is_last = self._last_backward.get((rank, unit)) is step
        stays = unit in self.layout.divided.frees_last and not is_forward and not is_last
        if self.layout.divided.calls_within:
            if (rank, unit) in self.under_way:
                self._leave(rank, unit, makes_gradient=makes_gradient)
        elif makes_gradient and unit not in self.beside.values():
            self._make_gradient(rank, unit)
        if self.layout.config.has_secondary and is_forward:
            self.holdings.secondary[rank, unit] = set(self.layout.secondary_part(rank))
            self.ledger.touch(rank, Role.SECONDARY, unit)
        is_over = (makes_gradient or is_forward) and not stays
        if is_over and self.layout.ends_with(unit, event.unit):
            self._free(rank, unit, event.phase)

    def _leave_computation(self, step: Step, event: Event) -> None:
        """A gradient is reduced within its computation, which has then ended.

        Autograd's hooks reduce it once complete; that of a unit without a computation, too, such as
        an engine's unit that spans the whole model.
        """
        within = self.layout.divided.calls_within
        units = [
            unit
            for unit in self.reductions.units_of(event.unit)
            if within or unit not in self.computed
        ]
        if not within and step.collective in self._reduced:  # another hop of the same reduction
            return
        self._reduced.add(step.collective)
        for rank in step.events:
            for unit in units:
                if (rank, unit) in self.under_way:
                    self._leave(rank, unit, makes_gradient=True)
                elif unit not in self.computed and not self.holdings.is_reduced_in_part(rank, unit):
                    self._make_gradient(rank, unit)
                self._free(rank, unit, step.phase)

    def _leave_modules(self, step: Step, coming: Sequence[str]) -> None:
        """The next unit is gathered: the parameters of previous modules are freed."""
        divided = self.layout.divided
        if not divided.frees_for_next or step.phase is Phase.UPDATE:
            return
        inside = [divided.modules.get(unit, unit) for unit in coming]
        for rank in step.events:
            for unit in self.ledger.units:
                module = divided.modules.get(unit, unit)
                if module and not any(f"{one}.".startswith(f"{module}.") for one in inside):
                    is_under_way = (rank, unit) in self.under_way
                    held = set(self.holdings.parameters[rank, unit])
                    if is_under_way and held >= set(self.layout.computes(rank, unit)):
                        makes = step.phase is Phase.BACKWARD
                        self._leave(rank, unit, makes_gradient=makes)
                        self._free(rank, unit, step.phase)

    def _leave_update(self, step: Step) -> None:
        """Parameters that an optimizer sends within its step have been updated by then."""
        if self.layout.divided.calls_within:
            for rank, unit in tuple(self.updating):
                if rank in step.events:
                    self._end_update(rank, unit)

    def _leave(self, rank: int, unit: str, *, makes_gradient: bool) -> None:
        """The parameters of a computation are present, or have arrived since its start."""
        self.under_way.discard((rank, unit))
        self.holdings.compute(rank, unit)
        if makes_gradient:
            self._make_gradient(rank, unit)

    def _make_gradient(self, rank: int, unit: str) -> None:
        if self.layout.trainable[unit]:
            self.holdings.make_gradient(rank, unit)
            self.ledger.touch(rank, Role.GRADIENTS, unit)

    def _free(self, rank: int, unit: str, phase: Phase) -> None:
        """Free the gathered parameters of a unit, if they are freed at this point."""
        if self.layout.frees(unit, phase):
            if self.holdings.free_parameters(rank, unit):
                self.freed[unit] = None
            self.ledger.touch(rank, Role.PARAMETERS, unit)

    def _end_update(self, rank: int, unit: str) -> None:
        if (rank, unit) not in self.updating:
            return
        del self.updating[rank, unit]
        self.holdings.updated(rank, unit)
        for band in self.layout.states:
            self.ledger.touch(rank, band.role, unit)


def _units_of_gathers(layout: ShardLayout, steps: Sequence[Step]) -> dict[int, tuple[str, ...]]:
    """By collective, the units that it gathers, if calls of a name gather several in turn."""
    seen: Counter[str] = Counter()
    found: dict[int, tuple[str, ...]] = {}
    named = {
        step.collective: event.unit
        for step in steps
        if step.collective is not None
        and (event := step.event) is not None
        and event.purpose is Purpose.GATHER_PARAMETERS
        and event.unit in layout.gathered
    }
    for index in sorted(named):
        calls = layout.gathered[named[index]]
        found[index] = calls[seen[named[index]] % len(calls)]
        seen[named[index]] += 1
    return found


def _is_backward(event: Event) -> bool:
    return event.kind is Kind.COMPUTE and event.phase is Phase.BACKWARD


def _of_backward(event: Event) -> tuple[int, str]:
    return event.micro_step, event.unit
