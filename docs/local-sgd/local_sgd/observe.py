"""How local SGD is found in a program, and what its call is for."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterator
from typing import Any

import local_sgd
from local_sgd.system import NAME
from zerosim.schema.events import Purpose
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.trace import labels
from zerosim.trace.autolabel.observer import Observer, parameters_of, ranks_of
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units


class Averaging(Observer):
    """Every `LocalSGD` that steps."""

    rules = (Rule("/local_sgd/__init__.py", "LocalSGD.average", Purpose.AVERAGE_PARAMETERS),)

    def __init__(self, units: Units) -> None:
        self._units = units
        self._first: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def meet(self, thing: Any) -> None:
        """See whether an optimizer is one, and which iteration is its next to average."""
        if isinstance(thing, local_sgd.LocalSGD) and thing not in self._first:
            ahead = thing.every - 1 - thing.num_steps % thing.every
            self._first[thing] = labels.position().iteration + ahead

    def settings(self) -> Hashable:
        """H may be changed."""
        return tuple(one.every for one in self._first)

    def describe(self) -> Iterator[Strategy]:
        """Each as it is now."""
        for optimizer, first in list(self._first.items()):
            every = [one for group in optimizer.param_groups for one in group["params"]]
            parameters = parameters_of((self._units.names.of(one), one) for one in every)
            yield Strategy(
                system=NAME,
                name=type(optimizer.local).__name__,
                ranks=ranks_of(None),
                bundles=(Bundle(name="model", parameters=parameters),),
                options={"every": optimizer.every, "first": first},
            )


def observer(units: Units) -> Observer:
    """What finds it in a program."""
    return Averaging(units)
