"""Hooks of modules and tensors, with which the engine observes a model without changing it.

    module about to compute       forward pre-hook
    module has computed           forward hook
    gradient of its output        tensor hook on each output
    gradient of a parameter       post-accumulate hook
    gradients of its inputs       tensor hooks, for modules with frozen parameters

No part of the model is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves
from torch.utils.hooks import RemovableHandle

from zerosim.train.engine.flat import FlatUnit


class ModuleListener:
    """Receives the events of the hooks."""

    def module_begins(self, units: Sequence[FlatUnit]) -> None:
        """The module of these units is about to compute."""

    def module_ends(self, units: Sequence[FlatUnit], outputs: Sequence[torch.Tensor]) -> None:
        """The module of these units has computed `outputs`."""

    def output_gradient(self, units: Sequence[FlatUnit]) -> None:
        """The gradient of the module's output is present: its backward is about to compute."""

    def parameter_gradient(self, flat: FlatUnit, index: int) -> None:
        """Autograd has the gradient of one parameter."""

    def input_gradients(self, units: Sequence[FlatUnit]) -> None:
        """The gradients of all the module's inputs are present: its backward has computed."""


def attach_hooks(units: Sequence[FlatUnit], listener: ModuleListener) -> list[RemovableHandle]:
    """Report the events of the units' modules to `listener`.

    Returns:
        The hooks' handles, for their removal.
    """
    by_module: dict[nn.Module, list[FlatUnit]] = {}
    for flat in units:
        by_module.setdefault(flat.unit.module, []).append(flat)
    handles: list[RemovableHandle] = []
    for module, members in by_module.items():
        handles += _attach_to_module(module, members, listener)
    for flat in units:
        if flat.unit.trainable:
            for index, slot in enumerate(flat.unit.slots):
                hook = _parameter_hook(listener, flat, index)
                handles.append(slot.parameter.register_post_accumulate_grad_hook(hook))
    return handles


def _attach_to_module(
    module: nn.Module, members: Sequence[FlatUnit], listener: ModuleListener
) -> list[RemovableHandle]:
    has_frozen = any(not flat.unit.trainable for flat in members)

    def begins(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        listener.module_begins(members)
        inputs = [tensor for tensor in _tensors((args, kwargs)) if tensor.requires_grad]
        if has_frozen and inputs:
            torch.autograd.graph.register_multi_grad_hook(
                inputs, lambda _: listener.input_gradients(members)
            )

    def ends(_: nn.Module, __: Any, output: Any) -> None:
        outputs = _tensors(output)
        listener.module_ends(members, outputs)
        for tensor in outputs:
            if tensor.requires_grad:
                tensor.register_hook(lambda _: listener.output_gradient(members))

    return [
        module.register_forward_pre_hook(begins, prepend=True, with_kwargs=True),
        module.register_forward_hook(ends),
    ]


def _parameter_hook(
    listener: ModuleListener, flat: FlatUnit, index: int
) -> Callable[[torch.Tensor], None]:
    return lambda _: listener.parameter_gradient(flat, index)


def _tensors(values: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in tree_leaves(values):
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif is_dataclass(value):
            found += _tensors([getattr(value, field.name) for field in fields(value)])
    return found
