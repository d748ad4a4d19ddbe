"""Which unit computes, in forward and in backward, and which model it belongs to.

The units are the model's blocks. A block's forward is the call of its module; its backward begins
when autograd comes to what made its output, or computes the block again, and ends when that of
another block begins. Nothing is added to a graph but a hook that returns nothing. Units of a
program's first model have their names in it, those of others the model's name before it.
Imports torch, zerosim's L0, trace.blocks and trace.labels.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from zerosim.trace import labels
from zerosim.trace.blocks import default_blocks
from zerosim.trace.eager import uncompiled
from zerosim.trace.program.names import Names

_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Under these names wrappers keep the module that they wrap."""


class Units:
    """Follows the blocks of every model that computes.

    Attributes:
        names: of their parameters.
    """

    def __init__(self) -> None:
        self.names = Names()
        self._units: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._labels: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._inside: weakref.WeakKeyDictionary[nn.Module, weakref.WeakSet[nn.Module]]
        self._inside = weakref.WeakKeyDictionary()
        self._taking_part: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self._took_part: weakref.WeakSet[nn.Module] | None = None
        self._taken: dict[str, int] = {}
        self._computing: list[tuple[nn.Module, str, int | None]] = []
        self._going_back: tuple[str, int | None] = ("", None)

    @property
    def current(self) -> str:
        """The unit that computes now; "" if none does."""
        return self._computing[-1][1] if self._computing else self._going_back[0]

    def meet(self, root: nn.Module) -> bool:
        """A model computes; returns whether it is new."""
        if root in self._labels:
            return False
        inner = unwrapped(root)
        label = self._label(root, inner)
        self._inside[root] = weakref.WeakSet(root.modules())
        for module in root.modules():
            self._labels.setdefault(module, label)
        for name, module in default_blocks(inner) or [(type(inner).__name__, inner)]:
            self._units.setdefault(module, qualified(label, clean(name)))
        for name, parameter in root.named_parameters():
            self.names.add(parameter, qualified(label, clean(name)))
        return True

    def label(self, module: nn.Module) -> str:
        """What tells the model that a module is in from others; "" for the first."""
        return self._labels.get(module, "")

    def takes_part(self, root: nn.Module, *, is_new_step: bool) -> None:
        """A model computes; with a new micro-step those that did in the last are forgotten."""
        if is_new_step:
            self._taking_part = weakref.WeakSet()
        self._taking_part.add(root)

    def settle(self) -> None:
        """A backward begins: which models take part in this micro-step is known."""
        self._took_part = weakref.WeakSet(self._taking_part)

    def took_part(self, module: nn.Module) -> bool:
        """Whether a module was in a model that computed, when that was last settled."""
        if not self._took_part or "torch.distributed.pipelining.stage" in sys.modules:
            return True
        return any(module in self._inside.get(root, ()) for root in self._took_part)

    def begin(self, module: nn.Module) -> bool:
        """A module computes in forward; returns whether it is a unit."""
        name = self._units.get(module)
        if name is None:
            return False
        self._computing.append((module, name, labels.begin_compute(name)))
        return True

    def end(self, module: nn.Module, output: Any, error: BaseException | None) -> None:
        """It has computed."""
        if not self._computing or self._computing[-1][0] is not module:
            return
        _, name, event = self._computing.pop()
        labels.end(event, "" if error is None else repr(error))
        for tensor in tree_leaves(output):
            made_by = tensor.grad_fn if isinstance(tensor, torch.Tensor) else None
            if made_by is not None:
                made_by.register_prehook(functools.partial(self._goes_back, name))

    def recompute(self, module: nn.Module) -> None:
        """A module computes again, in backward."""
        name = self._units.get(module)
        if name is not None:
            self._goes_back(name)

    def backward_ends(self) -> None:
        """Autograd is done."""
        labels.end(self._going_back[1])
        self._going_back = ("", None)

    @uncompiled
    def _goes_back(self, name: str, *_: Any) -> None:
        """Autograd has come to a unit."""
        if self._going_back[0] != name:
            labels.end(self._going_back[1])
            self._going_back = (name, labels.begin_compute(name))

    def _label(self, root: nn.Module, inner: nn.Module) -> str:
        known = [label for module in root.modules() if (label := self._labels.get(module))]
        is_first = not self._taken
        name = unique(self._taken, type(inner).__name__.removeprefix("FSDP"))
        if is_first or any(module in self._labels for module in root.modules()):
            return known[0] if known else ""
        return name


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


def qualified(label: str, name: str) -> str:
    """A name within the model that has this label."""
    return f"{label}: {name}" if label else name


def unique(taken: dict[str, int], name: str) -> str:
    """`name`, with a number behind it if it was taken before."""
    taken[name] = number = taken.get(name, 0) + 1
    return name if number == 1 else f"{name} {number}"
