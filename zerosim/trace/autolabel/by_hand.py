"""The program's own collectives on its parameters, its gradients and its loss."""

from __future__ import annotations

import weakref
from dataclasses import replace

import torch
from torch import nn

from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import HAND_WRITTEN, Bundle, Strategy
from zerosim.trace import labels
from zerosim.trace.autolabel.observer import parameters_of, ranks_of
from zerosim.trace.autolabel.phases import Phases
from zerosim.trace.autolabel.strategies import Strategies
from zerosim.trace.autolabel.units import Units, qualified, unwrapped
from zerosim.trace.operators import OperatorCall
from zerosim.trace.sink import Labels

_COUNTS = (torch.int32, torch.int64)
_MOST_COUNTS = 4096
"""Maximum number of counts, one per expert; more elements are indices or values."""
_SPREADS = (Op.ALL_GATHER, Op.BROADCAST)
_ALIGNED_TO = 11
"""Copies are padded so that each rank has a multiple of 1, 2, 4 ... 1024 elements."""
REDUCTIONS = (Op.ALL_REDUCE, Op.REDUCE_SCATTER, Op.REDUCE)


class ByHand:
    """Identifies calls by the storages of their arguments."""

    def __init__(self, units: Units, strategies: Strategies, phases: Phases) -> None:
        """Start without a model.

        Args:
            units: provides the names of parameters.
            strategies: records that of a model with gradients that the program reduces itself.
            phases: provides the current phase.
        """
        self._units = units
        self._strategies = strategies
        self._phases = phases
        self._roots: list[weakref.ref[nn.Module]] = []
        self._said: set[tuple[weakref.ref[nn.Module], str]] = set()

    def meet(self, root: nn.Module) -> None:
        """A model computes for the first time."""
        self._roots.append(weakref.ref(root))

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """The program's own collectives on its parameters, its gradients and its loss."""
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
        elif call.op is Op.ALL_TO_ALL and self._phases.is_busy:
            purpose = _exchanged(call)
        elif (root := self._model_of_this_size(call)) is not None:
            current = self._of_model(call, root, current)
        unit = current.unit or self._units.current
        return current.explained(purpose, unit, found)

    def _in_update(self, call: OperatorCall, current: Labels) -> Labels:
        """The results of an optimizer's step on one rank are sent to the other ranks after it."""
        here = current.position
        if here is None or not self._phases.is_after_step():
            return current
        if not self._units.names.of_parameters(call.results):
            return current
        return current._replace(position=replace(here, phase=Phase.UPDATE))

    def _say(self, call: OperatorCall, name: str) -> None:
        """Record that the program itself divides the model with this parameter."""
        for reference in self._roots:
            root = reference()
            label = "" if root is None else self._units.label(root)
            if root is None or not name.startswith(qualified(label, "")):
                continue
            if (reference, call.group_name) in self._said:
                return
            model = unwrapped(root)
            parameters = parameters_of(model.named_parameters())
            if name not in [qualified(label, one.name) for one in parameters]:
                continue
            self._say_of(call, reference, model, label)
            return

    def _say_of(
        self, call: OperatorCall, reference: weakref.ref[nn.Module], model: nn.Module, label: str
    ) -> None:
        parameters = parameters_of(model.named_parameters())
        self._strategies.write(
            Strategy(
                system=HAND_WRITTEN,
                name=label or type(model).__name__,
                ranks=ranks_of(call.group),
                bundles=(Bundle(name="model", parameters=parameters),),
            )
        )
        self._said.add((reference, call.group_name))

    def _model_of_this_size(self, call: OperatorCall) -> nn.Module | None:
        """The model of a program that sends a copy of all its parameters, or of all its gradients.

        Gradients after backward; after an optimizer's step whole parameters, or a rank's part.
        """
        if not all(tensor.is_floating_point() for tensor in call.tensors):
            return None
        is_after_step = self._phases.is_after_step()
        if not (is_after_step and call.op in _SPREADS) and not (
            call.op in REDUCTIONS and labels.position().phase is Phase.BACKWARD
        ):
            return None
        num_ranks = len(ranks_of(call.group))
        for reference in self._roots:
            root = reference()
            if root is None:
                continue
            size = sum(one.numel() for one in root.parameters())
            sizes = [_padded(size, num_ranks << power) for power in range(_ALIGNED_TO)]
            parts = [one // num_ranks for one in sizes] if is_after_step else []
            if call.elements in (size, *sizes, *parts):
                return root
        return None

    def _of_model(self, call: OperatorCall, root: nn.Module, current: Labels) -> Labels:
        """Of unknown purpose: a call of this size at this position belongs to the update."""
        reference = weakref.ref(root)
        is_said = (reference, call.group_name) in self._said
        if not is_said and not self._strategies.has_system():
            self._say_of(call, reference, unwrapped(root), self._units.label(root))
        if current.position is None or not self._phases.is_after_step():
            return current
        return current._replace(position=replace(current.position, phase=Phase.UPDATE))


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _exchanged(call: OperatorCall) -> Purpose:
    """Data that a model exchanges during its computation: tokens, preceded by their counts.

    Ambiguous data stay unknown: quantized values, indices, and scales.
    """
    tensors = call.tensors
    if all(tensor.dtype in _COUNTS and tensor.numel() <= _MOST_COUNTS for tensor in tensors):
        return Purpose.METADATA
    if all(tensor.is_floating_point() and tensor.dim() > 1 for tensor in tensors):
        return Purpose.ACTIVATIONS
    return Purpose.UNLABELLED
