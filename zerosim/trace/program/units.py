"""Which unit computes, in forward and in backward, and what a program's tensors are called.

The units are the model's blocks. A block's forward is seen by hooks that PyTorch calls for every
module; its backward begins when the gradient of its output is there and ends when that of another
block's is. Nothing is added to a graph but a hook that returns nothing.
Imports torch, zerosim's L0, trace.blocks, trace.holdings and trace.labels.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from zerosim.trace import labels
from zerosim.trace.blocks import default_blocks
from zerosim.trace.holdings import storage_of

_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Under these names wrappers keep the module that they wrap."""


class Units:
    """Follows the blocks of every model that computes."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._roots: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._parameters: dict[int, tuple[weakref.ref[torch.Tensor], str]] = {}
        self._by_storage: dict[int | None, tuple[weakref.ref[torch.Tensor], str, int]] = {}
        self._computing: list[tuple[str, int | None]] = []
        self._going_back: tuple[str, int | None] = ("", None)

    @property
    def current(self) -> str:
        """The unit that computes now; "" if none does."""
        return self._computing[-1][0] if self._computing else self._going_back[0]

    def meet(self, root: nn.Module) -> bool:
        """A model computes; returns whether it is new."""
        if root in self._roots:
            return False
        self._roots.add(root)
        for name, module in default_blocks(unwrapped(root)):
            self._names.setdefault(module, clean(name))
        for name, parameter in root.named_parameters():
            self._parameters[id(parameter)] = (weakref.ref(parameter), clean(name))
            address = _address(parameter)
            if address is not None:
                self._by_storage[address] = (weakref.ref(parameter), clean(name), address)
        return True

    def begin(self, module: nn.Module) -> None:
        """A module computes in forward."""
        name = self._names.get(module)
        if name is not None:
            self._computing.append((name, labels.begin_compute(name)))

    def end(self, module: nn.Module, output: Any) -> None:
        """It has computed."""
        name = self._names.get(module)
        if name is None or not self._computing:
            return
        labels.end(self._computing.pop()[1], "" if output is not None else "it raised")
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(lambda _, name=name: self._goes_back(name))

    def backward_ends(self) -> None:
        """Autograd is done."""
        labels.end(self._going_back[1])
        self._going_back = ("", None)

    def name_of(self, parameter: torch.Tensor) -> str:
        """What a parameter is called; "" if no model that computed has it."""
        reference, name = self._parameters.get(id(parameter), (None, ""))
        return name if reference is not None and reference() is parameter else ""

    def names_of(self, tensors: list[torch.Tensor]) -> tuple[str, ...]:
        """The parameters whose storage these tensors share."""
        found = (self._by_storage.get(_address(tensor)) for tensor in tensors)
        return tuple(
            name
            for reference, name, address in filter(None, found)
            if (parameter := reference()) is not None and _address(parameter) == address
        )

    def names_of_gradients(self, tensors: list[torch.Tensor]) -> tuple[str, ...]:
        """The parameters whose gradients' storage these tensors share."""
        storages = {_address(tensor) for tensor in tensors}
        alive = ((reference(), name) for reference, name in self._parameters.values())
        return tuple(
            name
            for parameter, name in alive
            if parameter is not None
            and parameter.grad is not None
            and _address(parameter.grad) in storages
        )

    def _goes_back(self, name: str) -> None:
        """The gradient of a unit's output is there."""
        if self._going_back[0] != name:
            labels.end(self._going_back[1])
            self._going_back = (name, labels.begin_compute(name))


def unwrapped(root: nn.Module) -> nn.Module:
    """The model within its wrappers (DDP, FSDP1, torch.compile, DeepSpeed's engine)."""
    while True:
        children = dict(root.named_children())
        inner = next((children[name] for name in _WRAPPED if name in children), None)
        if inner is None or len(children) > 1:
            return root
        root = inner


def clean(name: str) -> str:
    """A module's or parameter's name without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPED)


def _address(tensor: torch.Tensor) -> int | None:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    storage = storage_of(local)
    return None if storage is None else storage._cdata
