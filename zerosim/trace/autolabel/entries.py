"""PyTorch's functions that every training program calls: autograd's engine, an optimizer's step."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
import torch.autograd.graph
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import RemovableHandle

from zerosim.trace.autolabel.phases import Phases
from zerosim.trace.eager import transparent


class Entries:
    """Notifies `Phases` before and after each call, from `install` to `remove`."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._hooks: list[RemovableHandle] = []
        self._run_backward: Any = None
        self._scaler_step: Any = None
        self._clears: dict[type, Any] = {}

    def install(self) -> None:
        """Start to notify."""
        phases = self._phases
        self._hooks = [
            register_optimizer_step_pre_hook(lambda one, *_: phases.optimizer_begins(one)),
            register_optimizer_step_post_hook(lambda *_: phases.step_ends()),
        ]
        self._run_backward = run = torch.autograd.graph._engine_run_backward
        self._scaler_step = step = GradScaler.step

        @transparent
        @functools.wraps(run)
        def run_backward(roots: Any, *args: Any, **kwargs: Any) -> Any:
            phases.backward_begins(roots, adds=bool(kwargs.get("accumulate_grad")))
            try:
                return run(roots, *args, **kwargs)
            finally:
                phases.backward_ends()

        @transparent
        @functools.wraps(step)
        def scaler_step(*args: Any, **kwargs: Any) -> Any:
            phases.step_begins()
            try:
                return step(*args, **kwargs)
            finally:
                phases.step_ends()

        self._clears = {one: one.zero_grad for one in (torch.optim.Optimizer, torch.nn.Module)}
        for one, clear in self._clears.items():
            _clear_with(one, _telling(phases, clear))
        _run_backward_with(run_backward)
        GradScaler.step = scaler_step  # type: ignore[method-assign]

    def remove(self) -> None:
        """Stop notifying."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._run_backward is not None:
            _run_backward_with(self._run_backward)
            GradScaler.step = self._scaler_step  # type: ignore[method-assign]
            for one, clear in self._clears.items():
                _clear_with(one, clear)
            self._run_backward = None


def _run_backward_with(function: Any) -> None:
    """Replace the function in the two modules that import it by name."""
    for home in (torch.autograd, torch.autograd.graph):
        home._engine_run_backward = function  # type: ignore[attr-defined]


def _telling(phases: Phases, clear: Any) -> Any:
    """A function that clears gradients, after reporting which."""

    @transparent
    @functools.wraps(clear)
    def zero_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        phases.gradients_cleared(_parameters_of(self))
        return clear(self, *args, **kwargs)

    return zero_grad


def _parameters_of(owner: Any) -> Iterator[torch.Tensor]:
    if isinstance(owner, torch.nn.Module):
        yield from owner.parameters()
    else:
        for group in owner.param_groups:
            yield from group["params"]


def _clear_with(owner: type, function: Any) -> None:
    owner.zero_grad = function  # type: ignore[attr-defined]
