"""The names of the states that a program's optimizers keep for each parameter; no sizes."""

from __future__ import annotations

import weakref

import torch

from zerosim.schema.memory import ROLE_OF_STATE


class _Stepped:
    """A parameter that an optimizer stepped for, and the states that it then had.

    Attributes:
        num_states: 0 until all of them are tensors.
    """

    __slots__ = ("names", "num_states", "optimizer", "parameter")

    def __init__(
        self, parameter: weakref.ref[torch.Tensor], optimizer: weakref.ref[torch.optim.Optimizer]
    ) -> None:
        self.parameter = parameter
        self.optimizer = optimizer
        self.num_states = 0
        self.names: tuple[str, ...] = ()


class Optimizers:
    """Every optimizer that stepped. Keeps nothing alive."""

    def __init__(self) -> None:
        self._num_parameters: weakref.WeakKeyDictionary[torch.optim.Optimizer, int]
        self._num_parameters = weakref.WeakKeyDictionary()
        self._of: dict[int, _Stepped] = {}

    def all(self) -> list[torch.optim.Optimizer]:
        """The optimizers that still exist."""
        return list(self._num_parameters)

    def meet(self, optimizer: torch.optim.Optimizer) -> bool:
        """An optimizer begins its step; returns whether it is new, or has new parameters."""
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if self._num_parameters.get(optimizer) == count:
            return False
        self._num_parameters[optimizer] = count
        reference = weakref.ref(optimizer)
        for group in optimizer.param_groups:
            for one in group["params"]:
                self._of[id(one)] = _Stepped(weakref.ref(one), reference)
        return True

    def counts(self) -> tuple[tuple[int, int, int], ...]:
        """For each optimizer, its parameters, those of them with states, and these states."""
        found = []
        for optimizer, num_parameters in self._num_parameters.items():
            states = [of for of in optimizer.state.values() if isinstance(of, dict)]
            found.append((num_parameters, len(states), sum(map(len, states))))
        return tuple(found)

    def states(self, parameter: torch.Tensor) -> tuple[str, ...] | None:
        """The names of a parameter's states with a role; None if no optimizer has updated it."""
        known = self._of.get(id(parameter))
        optimizer = None if known is None else known.optimizer()
        if known is None or known.parameter() is not parameter or optimizer is None:
            return None
        states = optimizer.state.get(parameter) or {}
        if known.num_states != len(states) or not states:
            found = [name for name, one in states.items() if isinstance(one, torch.Tensor)]
            known.num_states = len(states) if len(found) == len(states) else 0
            known.names = tuple(sorted(name for name in found if name in ROLE_OF_STATE))
        return known.names
