"""What a program calls by itself, on its parameters, its gradients and its loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Strategy
from zerosim.trace import labels
from zerosim.trace.autolabel.observer import parameters_of, ranks_of
from zerosim.trace.autolabel.units import Units, qualified, unwrapped
from zerosim.trace.operators import OperatorCall
from zerosim.trace.sink import Labels

_WHERE_TOKENS_TRAVEL = (Phase.FORWARD, Phase.BACKWARD)
REDUCTIONS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE)


class ByHand:
    """Knows calls by the storages that they are given."""

    def __init__(
        self, units: Units, write: Callable[[Strategy], None], is_after_step: Callable[[], bool]
    ) -> None:
        """Know no model yet.

        Args:
            units: knows what parameters are called.
            write: takes the strategy of a model whose gradients the program reduces itself.
            is_after_step: whether an optimizer's step was the last thing that the program did.
        """
        self._is_after_step = is_after_step
        self._units = units
        self._write = write
        self._roots: list[weakref.ref[nn.Module]] = []
        self._said: set[tuple[weakref.ref[nn.Module], str]] = set()

    def meet(self, root: nn.Module) -> None:
        """A model computes for the first time."""
        self._roots.append(weakref.ref(root))

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """What a program calls by itself on its parameters, its gradients and its loss."""
        names, purpose = self._units.names, Purpose.UNLABELLED
        found = names.of_gradients(call.tensors)
        if found:
            if call.op in REDUCTIONS:
                purpose = Purpose.REDUCE_GRADIENTS
                self._say(call, found[0])
        elif found := names.of_parameters(call.tensors):
            if call.op is Op.BROADCAST and labels.position().iteration < 0:
                purpose = Purpose.BROADCAST_STATE
            elif call.op in (Op.BROADCAST, Op.ALL_GATHER):
                purpose = Purpose.GATHER_PARAMETERS
                self._say(call, found[0])
                current = self._in_update(call, current)
        elif call.op in REDUCTIONS and names.is_loss(call.tensors):
            purpose = Purpose.AVERAGE_LOSS
        elif call.op is Op.ALL_TO_ALL and labels.position().phase in _WHERE_TOKENS_TRAVEL:
            # experts and sequences are exchanged so, and how many of them before
            counts = all(not tensor.is_floating_point() for tensor in call.tensors)
            purpose = Purpose.METADATA if counts else Purpose.ACTIVATIONS
        unit = current.unit or self._units.current
        return current.explained(purpose, unit, found)

    def _in_update(self, call: OperatorCall, current: Labels) -> Labels:
        """What an optimizer's step wrote on one rank gets into the others' parameters after it."""
        here = current.position
        if here is None or not self._is_after_step():
            return current
        if not self._units.names.of_parameters(call.results):
            return current
        return current._replace(position=replace(here, phase=Phase.UPDATE))

    def _say(self, call: OperatorCall, name: str) -> None:
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
                    system=HAND_WRITTEN,
                    name=label or type(model).__name__,
                    ranks=ranks_of(call.group),
                    bundles=(Bundle(name="model", parameters=parameters),),
                )
            )
            self._said.add((reference, call.group.group_name))
            return
