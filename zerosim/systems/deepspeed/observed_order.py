"""The order of modules that DeepSpeed's stage 3 records in its first micro-step, and repeats.

It records forwards and backwards of modules alike. Calls of modules show which entries of backward
are forwards: each call creates the next entry. One that ends early, like the recomputation of
`checkpoint(use_reentrant=False)`, raises and never releases its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from zerosim.schema.events import Phase
from zerosim.systems.deepspeed.observed_engine import (
    coordinator_of,
    external_reads,
    names_of,
    partitioned,
)
from zerosim.trace import labels
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.fail_safe import fail_safe

_ORDER = "_PartitionedParameterCoordinator__submodule_order"
_GOING_BACK = "_PartitionedParameterCoordinator__active_backward_submodules"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A forward that is computed again in backward.

    Attributes:
        place: index of its entry in the order of modules.
        within: modules whose backward was in progress at its start.
    """

    place: int
    within: tuple[str, ...]


class Recomputes:
    """Watches one micro-step that records, from `begin` to `end`: a `modules.ModuleWatcher`.

    Attributes:
        found: in the order of their places.
        cut_short: places of those that ended early.
        trouble: why it has stopped observing; "" if it observes.
    """

    def __init__(
        self,
        names: Mapping[nn.Module, str],
        order: Callable[[], Sequence[nn.Module]],
        going_back: Callable[[], Sequence[nn.Module]],
    ) -> None:
        """Create an observer that is not active yet.

        Args:
            names: names of the modules that DeepSpeed knows.
            order: the order recorded so far.
            going_back: modules whose backward is in progress.
        """
        self.found: list[Recomputed] = []
        self.cut_short: list[int] = []
        self.trouble = ""
        self._names, self._order, self._going_back = names, order, going_back
        self._running: list[tuple[nn.Module, int]] = []

    def begin(self) -> None:
        """Begin to observe."""
        modules.watch(self)

    def end(self) -> None:
        """Stop observing."""
        modules.unwatch(self)

    @fail_safe
    def module_begins(self, module: nn.Module) -> bool:
        """A module is called; its entry is about to be recorded."""
        # DeepSpeed observes no module within a leaf module
        is_recorded = module in self._names and "ds_id" in vars(module)
        if is_recorded and torch._C._current_graph_task_id() != -1:
            place = len(self._order())
            within = tuple(self._names.get(one, "") for one in self._going_back())
            self.found.append(Recomputed(place, within))
            self._running.append((module, place))
        return True

    @fail_safe
    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """The call ends."""
        del output
        if self._running and self._running[-1][0] is module:
            _, place = self._running.pop()
            if error is not None:
                self.cut_short.append(place)


@dataclass(frozen=True, slots=True)
class ForeignRead:
    """A parameter that a module reads and another owns, not yet known to DeepSpeed as external."""

    place: int
    reader: str
    name: str


@dataclass(frozen=True, slots=True)
class RepeatedOrder:
    """The state of stage 3 in a micro-step.

    Attributes:
        trace: "record" while it records the order of modules, "complete" while it repeats it.
        module_order: the order that it repeats, forward and backward.
        recomputed, cut_short: entries that are recomputations in backward, and the indices of those
            that end early.
        partitioned: names of persistent parameters that are not gathered at its start.
        met: external parameters that were found during the recording.
    """

    trace: str = ""
    module_order: tuple[str, ...] = ()
    recomputed: tuple[Recomputed, ...] = ()
    cut_short: tuple[int, ...] = ()
    partitioned: tuple[str, ...] = ()
    met: tuple[ForeignRead, ...] = ()


_NO_ORDER = RepeatedOrder()


class RepeatedOrders:
    """The state of stage 3 in each engine's micro-step."""

    def __init__(self, names: Mapping[nn.Module, str]) -> None:
        """Create an observer without engines.

        Args:
            names: of the modules that DeepSpeed knows.
        """
        self._names = names
        self._seen: dict[int, tuple[int, RepeatedOrder]] = {}
        self._recomputes: dict[int, Recomputes] = {}
        self._met: dict[int, list[ForeignRead]] = {}
        self._known: dict[int, set[tuple[str, str]]] = {}

    def remove(self) -> None:
        """Stop observing."""
        for one in self._recomputes.values():
            one.end()
        self._recomputes.clear()

    def reads(self, engine: Any, reader: str, parameter: Any) -> None:
        """A module reads a parameter that another owns and that was not known to be external."""
        name = names_of(engine).get(parameter)
        coordinator = coordinator_of(engine)
        if name is not None and coordinator is not None:
            place = len(getattr(coordinator, _ORDER, ()))
            self._met.setdefault(id(engine), []).append(ForeignRead(place, reader, name))

    def of(self, engine: Any) -> RepeatedOrder:
        """The state of stage 3 in this micro-step, read once when its forward begins."""
        coordinator, number = coordinator_of(engine), int(engine.micro_steps)
        seen, before = self._seen.get(id(engine), (-1, _NO_ORDER))
        if coordinator is None or seen == number or not _in_forward():
            return before
        divided = tuple(partitioned(engine))
        if coordinator.is_invalid_trace():
            self._watch(engine, coordinator)
            now = RepeatedOrder("record", partitioned=divided)
        elif before.trace == "complete" and coordinator.is_complete_trace():
            now = replace(before, partitioned=divided)
        else:
            order = tuple(self._names.get(one, "") for one in getattr(coordinator, _ORDER, ()))
            recomputes = self._recomputes.pop(id(engine), None)
            if recomputes is not None:
                recomputes.end()
            now = RepeatedOrder(
                "complete",
                order,
                tuple(recomputes.found) if recomputes else (),
                tuple(recomputes.cut_short) if recomputes else (),
                divided,
                tuple(self._met_while(engine, order)),
            )
        self._seen[id(engine)] = (number, now)
        return now

    def _watch(self, engine: Any, coordinator: Any) -> None:
        """Determine which forwards are recomputations, while the order is recorded."""
        if id(engine) in self._recomputes:
            self._recomputes.pop(id(engine)).end()
        recomputes = Recomputes(
            self._names,
            lambda: getattr(coordinator, _ORDER, ()),
            lambda: tuple(getattr(coordinator, _GOING_BACK, {}).values()),
        )
        self._recomputes[id(engine)] = recomputes
        self._met[id(engine)], self._known[id(engine)] = [], set(external_reads(engine))
        recomputes.begin()

    def _met_while(self, engine: Any, order: Sequence[str]) -> list[ForeignRead]:
        """The external parameters that were found while this order was recorded.

        Returned parameters are found without a gather, at the latest when backward begins.
        """
        met, known = self._met.pop(id(engine), []), self._known.pop(id(engine), None)
        if known is None:
            return []
        known |= {(one.reader, one.name) for one in met}
        goes_back = order.index(order[0], 1) if order[:1] and order[0] in order[1:] else len(order)
        handed = [
            ForeignRead(goes_back, *one) for one in external_reads(engine) if one not in known
        ]
        return [*met, *handed]


def _in_forward() -> bool:
    position = labels.position()
    return position is not None and position.phase is Phase.FORWARD
