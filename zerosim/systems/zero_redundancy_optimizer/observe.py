"""The state of `ZeroRedundancyOptimizer`."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable, Iterator
from typing import Any

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.zero_redundancy_optimizer import NAME
from zerosim.trace.autolabel.observer import Observer, parameters_of, ranks_of
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units, unique

_FILE = "/distributed/optim/zero_redundancy_optimizer.py"
_CLASS = "ZeroRedundancyOptimizer"
_MODULE = "torch.distributed.optim.zero_redundancy_optimizer"


class RedundancyOptimizer(Observer):
    """Every `ZeroRedundancyOptimizer` that steps."""

    rules = (
        Rule(_FILE, f"{_CLASS}._sync_params", Purpose.GATHER_PARAMETERS, phase=Phase.UPDATE),
        Rule(_FILE, "", Purpose.METADATA, is_weak=True),
    )

    def __init__(self, units: Units) -> None:
        self._units = units
        self._taken: dict[str, int] = {}
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()

    def meet(self, thing: Any) -> None:
        """Determine whether an optimizer is a `ZeroRedundancyOptimizer`."""
        kind = getattr(sys.modules.get(_MODULE), _CLASS, None)
        if kind is not None and isinstance(thing, kind) and thing not in self._names:
            self._names[thing] = unique(self._taken, thing._optim_constructor.__name__)

    def settings(self) -> Hashable:
        """The number of optimizers."""
        return len(self._names)

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each."""
        for optimizer, name in list(self._names.items()):
            ranks = ranks_of(optimizer.process_group)
            bundles = tuple(
                Bundle(
                    name=f"rank {ranks[position]}",
                    parameters=parameters_of(
                        (self._units.names.of(parameter), parameter)
                        for group in groups
                        for parameter in group["params"]
                    ),
                    options={"owner": ranks[position]},
                )
                for position, groups in enumerate(optimizer._partition_parameters())
            )
            yield Strategy(
                system=NAME,
                name=name,
                ranks=ranks,
                bundles=bundles,
                options={
                    "bucket_view": bool(optimizer.parameters_as_bucket_view),
                    "overlap_with_ddp": bool(getattr(optimizer, "_overlap_with_ddp", False)),
                },
            )


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return RedundancyOptimizer(units)
