"""What a program calls by itself, on its parameters, its gradients and its loss.

Imports torch and zerosim's L0.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from zerosim.events import Op, Purpose
from zerosim.strategies import Bundle, Strategy, System
from zerosim.trace import labels
from zerosim.trace.dispatch import Call
from zerosim.trace.program.system import parameters_of, ranks_of
from zerosim.trace.program.units import Units, qualified, unwrapped
from zerosim.trace.sink import Labels

_REDUCTIONS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE)


class ByHand:
    """Knows calls by the storages that they are given."""

    def __init__(self, units: Units, write: Callable[[Strategy], None]) -> None:
        """Know no model yet.

        Args:
            units: knows what parameters are called.
            write: takes the strategy of a model whose gradients the program reduces itself.
        """
        self._units = units
        self._write = write
        self._roots: list[weakref.ref[nn.Module]] = []
        self._said: set[tuple[weakref.ref[nn.Module], str]] = set()

    def meet(self, root: nn.Module) -> None:
        """A model computes for the first time."""
        self._roots.append(weakref.ref(root))

    def explain(self, call: Call, current: Labels) -> Labels:
        """What a program calls by itself on its parameters, its gradients and its loss."""
        names, purpose = self._units.names, Purpose.UNLABELLED
        found = names.of_gradients(call.tensors)
        if found:
            if call.op in _REDUCTIONS:
                purpose = Purpose.REDUCE_GRADIENTS
                self._say(call, found[0])
        elif found := names.of_parameters(call.tensors):
            if call.op is Op.BROADCAST and labels.position().iteration < 0:
                purpose = Purpose.BROADCAST_STATE
            elif call.op in (Op.BROADCAST, Op.ALL_GATHER):
                purpose = Purpose.GATHER_PARAMETERS
                self._say(call, found[0])
        elif call.op in _REDUCTIONS and names.is_loss(call.tensors):
            purpose = Purpose.AVERAGE_LOSS
        unit = current.unit or self._units.current
        return replace(current, purpose=purpose, unit=unit, tensors=found)

    def _say(self, call: Call, name: str) -> None:
        """The model that has a parameter of this name is divided by the program itself."""
        for reference in self._roots:
            root = reference()
            label = "" if root is None else self._units.label(root)
            if root is None or not name.startswith(qualified(label, "")):
                continue
            if (reference, call.group.group_name) in self._said:
                return
            model = unwrapped(root)
            parameters = parameters_of(model.named_parameters())
            if name not in [qualified(label, one.name) for one in parameters]:
                continue
            self._write(
                Strategy(
                    system=System.HAND_WRITTEN,
                    name=label or type(model).__name__,
                    ranks=ranks_of(call.group),
                    bundles=(Bundle(name="model", parameters=parameters),),
                )
            )
            self._said.add((reference, call.group.group_name))
            return
