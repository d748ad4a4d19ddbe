"""The state of `parallelize_module`: the sharded modules, and their styles.

A style leaves hooks on its module, and in them the given layouts: they are read from there. Shapes
are those of the module's latest forward, unsharded. Theory derives the communication of a layout.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from zerosim.schema.events import Op, Phase, Purpose
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.systems.tensor_parallel import NAME
from zerosim.systems.tensor_parallel.styles import (
    TENSOR_MODULE,
    Style,
    is_divided,
    read_styles,
    whole,
    words,
)
from zerosim.trace import labels
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.fail_safe import fail_safe
from zerosim.trace.autolabel.observer import (
    Observer,
    by_states,
    dtype_name,
    named_states,
    parameters_of,
    ranks_of,
    undivided,
)
from zerosim.trace.autolabel.rules import Rule, find_frame
from zerosim.trace.autolabel.units import Units, class_name, clean, unwrapped
from zerosim.trace.operators import OperatorCall

_FILES = "/torch/distributed/tensor/"


@dataclass(slots=True)
class _DividedModule:
    """The effect of a style on a module.

    Attributes:
        options: the options seen in its forward; empty before its first.
        looks: inputs and outputs at that time; they seldom change.
        micro_step: iteration and micro-step of its last computation.
        forwards: number of forwards in that micro-step.
        recomputed: number of recomputations since.
    """

    style: Style
    options: dict[str, object] = field(default_factory=dict)
    looks: dict[str, Hashable] = field(default_factory=dict)
    parameters: tuple[Parameter, ...] = ()
    micro_step: tuple[int, int] = (-1, -1)
    forwards: int = 0
    recomputed: int = 0


class TensorParallel(Observer):
    """Every model with modules that `parallelize_module` divided.

    Attributes:
        trouble: why it has stopped observing modules; "" if it observes them.
    """

    rules = (
        Rule(f"{_FILES}_api.py", "distribute_tensor", Purpose.BROADCAST_STATE),
        Rule(f"{_FILES}_api.py", "", Purpose.ACTIVATIONS, is_weak=True),
        Rule(f"{_FILES}_redistribute.py", "", Purpose.ACTIVATIONS, is_weak=True),
        # an operator with inputs of different layouts redistributes them
        Rule(f"{_FILES}_dispatch.py", "", Purpose.ACTIVATIONS, is_weak=True),
    )

    def __init__(self, units: Units) -> None:
        self.trouble = ""
        self._units = units
        self._models: WeakKeyDictionary[nn.Module, list[_DividedModule]] = WeakKeyDictionary()
        self._by_module: WeakKeyDictionary[nn.Module, list[_DividedModule]] = WeakKeyDictionary()
        self._optimizer = ""
        self._partial: tuple[str, ...] = ()
        self._whole: tuple[str, ...] = ()
        self._states: dict[tuple[str, ...], tuple[Hashable, ...]] = {}
        self._seen: Hashable = ()

    def remove(self) -> None:
        """Stop observing modules."""
        modules.unwatch(self)

    def meet(self, thing: Any) -> None:
        """Find divided modules in a model, or in the sums that an optimizer has to complete."""
        if TENSOR_MODULE not in sys.modules:
            return
        if isinstance(thing, torch.optim.Optimizer):
            self._meet_optimizer(thing)
            return
        for name, module in thing.named_modules():
            found = (
                []
                if module in self._by_module
                else [_DividedModule(style) for style in read_styles(clean(name) or "root", module)]
            )
            if found:
                if not self._by_module:
                    modules.watch(self)
                self._models.setdefault(thing, []).extend(found)
                self._by_module[module] = found

    @fail_safe
    def module_begins(self, module: nn.Module) -> bool:
        """A module is called, before its hooks run; returns whether the module is divided."""
        found = self._by_module.get(module)
        if found is None:
            return False
        if labels.position().phase is Phase.FORWARD:
            frame = find_frame("_call", "/zerosim/trace/autolabel/modules.py")
            for divided in found:
                _look_at_input(divided, () if frame is None else frame.f_locals["args"])
        return True

    @fail_safe
    def module_ends(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """The call ends; its hooks have converted the output."""
        found = self._by_module.get(module)
        here = labels.position()
        if found is None or error is not None:
            return
        if here.phase is Phase.BACKWARD:
            for divided in found:
                divided.recomputed += 1
        elif here.phase is Phase.FORWARD:
            tensors = [one for one in tree_leaves(output) if isinstance(one, torch.Tensor)]
            for divided in found:
                if divided.micro_step != (here.iteration, here.micro_step):
                    divided.micro_step = (here.iteration, here.micro_step)
                    divided.forwards = divided.recomputed = 0
                divided.forwards += 1
                _look_at_output(divided, module, tensors)

    def settings(self) -> Hashable:
        """Read the latest micro-step, with its whole forward."""
        if labels.position().phase is not Phase.FORWARD:
            self._seen = tuple(
                (one.forwards, one.recomputed, *one.looks.values())
                for found in self._by_module.values()
                for one in found
            )
        states = tuple(self._states.items())
        return (self._seen, self._optimizer, self._partial, self._whole, states)

    def update_begins(self) -> None:
        """Record which states the parameters have."""
        self._states = by_states(
            (clean(name), self._units.optimizers.states(one))
            for model in self._models
            for name, one in model.named_parameters()
        )

    def describe(self) -> Iterator[Strategy]:
        """The current strategies of each model, one for each group of ranks."""
        for model, found in self._models.items():
            known = [one for one in found if one.options]
            for ranks in dict.fromkeys(one.style.ranks for one in known):
                within = [one for one in known if one.style.ranks == ranks]
                bundles = [_bundle(one) for one in within]
                own = {one.name for bundle in bundles for one in bundle.parameters}
                yield Strategy(
                    system=NAME,
                    name=class_name(unwrapped(model)),
                    ranks=ranks,
                    bundles=tuple(bundles),
                    options={
                        "device": within[0].style.mesh.device_type,
                        "optimizer": self._optimizer,
                        "partial_gradients": [name for name in self._partial if name in own],
                        "whole_gradients": [name for name in self._whole if name in own],
                        "states": named_states(
                            {
                                names: [name for name in parameters if name in own]
                                for names, parameters in self._states.items()
                            }
                        ),
                        **undivided(model, own, self._units.optimizers),
                    },
                )

    def purpose_of_activations(self, phase: Phase | None, call: OperatorCall) -> Purpose | None:
        """The purpose of a redistribution of a DTensor.

        An optimizer step completes the sums of gradients that tensor parallelism left, and may
        communicate for its own computation.
        """
        if phase in (Phase.FORWARD, Phase.BACKWARD):
            return Purpose.ACTIVATIONS
        if phase is not Phase.UPDATE:
            return Purpose.UNLABELLED
        ours = {one.style.ranks for found in self._models.values() for one in found}
        is_sum = call.op is Op.ALL_REDUCE and ranks_of(call.group) in ours
        return Purpose.REDUCE_GRADIENTS if is_sum else Purpose.COMPUTE_UPDATE

    def _meet_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        names = {
            id(parameter): clean(name)
            for model in self._models
            for name, parameter in model.named_parameters()
        }
        is_fused = any(group.get("fused") for group in optimizer.param_groups)
        self._optimizer = type(optimizer).__name__ + " fused" * is_fused
        partial = (
            names.get(id(parameter), "")
            for group in optimizer.param_groups
            for parameter in group["params"]
            if is_divided(parameter.grad)
            and any(placement.is_partial() for placement in parameter.grad.placements)
        )
        self._partial = tuple(dict.fromkeys((*self._partial, *partial)))
        whole = (
            names.get(id(parameter), "")
            for group in optimizer.param_groups
            for parameter in group["params"]
            if is_divided(parameter)
            and is_divided(parameter.grad)
            and any(placement.is_shard() for placement in parameter.placements)
            and not any(placement.is_shard() for placement in parameter.grad.placements)
        )
        self._whole = tuple(dict.fromkeys((*self._whole, *whole)))


def _bundle(divided: _DividedModule) -> Bundle:
    counts = {"forwards": divided.forwards, "recomputed": divided.recomputed}
    return Bundle(
        name=divided.style.name,
        parameters=divided.parameters,
        options={"style": divided.style.kind, **divided.options, **counts},
    )


def _look_at_input(divided: _DividedModule, inputs: tuple[Any, ...]) -> None:
    """Note the inputs of a module."""
    layouts = divided.style.input
    if layouts is not None and layouts.position < len(inputs):
        tensor = inputs[layouts.position]
        if isinstance(tensor, torch.Tensor) and _looks_new(divided, "input", tensor):
            shape, given = whole(tensor, layouts.given, divided.style.mesh)
            divided.options |= {
                "input_shape": shape,
                "input_dtype": dtype_name(tensor.dtype),
                "input_layout": words(given, len(shape)),
                "wanted_layout": words(layouts.wanted, len(shape)),
                "input_is_tensor": not is_divided(tensor),
                "wanted_is_tensor": layouts.is_tensor,
                "input_has_gradient": tensor.requires_grad,
            }


def _look_at_output(
    divided: _DividedModule, module: nn.Module, outputs: list[torch.Tensor]
) -> None:
    """Note the outputs of a module."""
    layouts = divided.style.output
    if layouts is not None and layouts.position < len(outputs):
        tensor = outputs[layouts.position]
        if not _looks_new(divided, "output", tensor):
            return
        divided.parameters = _named_parameters(divided, module)
        shape, handed = whole(tensor, layouts.wanted, divided.style.mesh)
        divided.options |= {
            "output_shape": shape,
            "dtype": dtype_name(tensor.dtype),
            "made_layout": divided.style.made(len(shape)),
            "output_layout": words(handed, len(shape)),
            "output_is_tensor": layouts.is_tensor,
        }


def _looks_new(divided: _DividedModule, side: str, tensor: torch.Tensor) -> bool:
    """Whether a tensor differs from the previous one in its position."""
    layout = getattr(tensor, "placements", None)
    look = (tensor.shape, tensor.dtype, tensor.requires_grad, layout)
    if divided.looks.get(side) == look:
        return False
    divided.looks[side] = look
    return True


def _named_parameters(divided: _DividedModule, module: nn.Module) -> tuple[Parameter, ...]:
    return parameters_of(
        (f"{divided.style.name}.{name}", parameter) for name, parameter in _parameters(module)
    )


def _parameters(module: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """A module's own parameters; DDP keeps sharded ones as plain attributes while it computes."""
    for name, value in {**vars(module), **module._parameters}.items():
        if isinstance(value, nn.Parameter) or is_divided(value):
            yield name, value


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return TensorParallel(units)
