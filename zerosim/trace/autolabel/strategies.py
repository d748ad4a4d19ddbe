"""A program's partitioning, written as rows `Strategy` when it changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

import torch.distributed as dist

from zerosim.schema.strategies import HAND_WRITTEN, Strategy
from zerosim.systems.registry import find
from zerosim.trace import labels
from zerosim.trace.autolabel.observer import Observer
from zerosim.trace.autolabel.units import Units
from zerosim.trace.sink import Position

Key = tuple[str, str]


class Strategies:
    """The strategies written for each system, and those to write next.

    Each row includes the classes of the units, and the parameters of models that no system divides:
    the reader has no model.
    """

    def __init__(
        self,
        systems: Sequence[Observer],
        write: Callable[[Strategy], None],
        units: Units,
    ) -> None:
        self._systems = systems
        self._to_file = write
        self._units = units
        self._settings: dict[int, Hashable] = {}
        self._alive: dict[int, set[Key]] = {}
        self._looked: dict[int, int] = {}
        self._written: dict[Key, Strategy] = {}
        self._members: dict[str, tuple[str, ...]] = {}

    def look(self) -> None:
        """Record each system that has changed."""
        here = labels.position()
        models = str(self._units.models)
        for number, system in enumerate(self._systems):
            settings = system.settings(), models
            if self._settings.get(number) != settings:
                self._settings[number] = settings
                strategies = list(system.describe())
                for strategy in strategies:
                    self.write(strategy)
                self._described(number, {(one.system, one.name) for one in strategies}, here)
            self._looked[number] = here.iteration

    def write(self, strategy: Strategy, position: Position | None = None) -> None:
        """Record a strategy, unless it is unchanged.

        Args:
            position: the position from which it is valid; the current one by default.
        """
        key = (strategy.system, strategy.name)
        if self._units.models:
            options = {**strategy.options, "models": self._units.models}
            strategy = replace(strategy, options=options)
        if self._written.get(key) == strategy:
            return
        self._written[key] = strategy
        for bundle in strategy.bundles:
            self._members[bundle.name] = tuple(one.name for one in bundle.parameters)
        here = position or labels.position()
        self._to_file(
            replace(
                strategy,
                iteration=max(0, here.iteration),
                micro_step=here.micro_step,
                options={**strategy.options, "classes": self._units.classes()},
            )
        )

    def has_system(self) -> bool:
        """Whether a system partitions training, besides the program's own collectives."""
        return any(system != HAND_WRITTEN for system, _ in self._written)

    def labels(self) -> set[str]:
        """The prefixes of the models that a system divides."""
        return {
            str(options.get("label", ""))
            for one in self._written.values()
            for options in (one.options, *(bundle.options for bundle in one.bundles))
        }

    def parameters_of(self, unit: str) -> tuple[str, ...]:
        """The parameters that communicate together under this name."""
        if unit not in self._members:
            self.look()  # some can be described only once they have begun to communicate
        return self._members.get(unit, ())

    def _described(self, number: int, keys: set[Key], here: Position) -> None:
        """A system that is no longer described was freed: it spans this rank alone.

        If it was described in this iteration, it may have computed in it, and ends with it.
        """
        gone = self._alive.get(number, set()) - keys
        self._alive[number] = keys
        if not gone or not dist.is_initialized():  # nothing is sent any more
            return
        if self._looked.get(number) == here.iteration:
            here = Position(here.iteration + 1)
        for key in gone:
            system = find(key[0])
            if system is not None and system.ends_with_its_model:
                self.write(replace(self._written[key], ranks=(dist.get_rank(),)), here)
