"""The computing unit, in forward and in backward, and its model.

The units are the model's blocks. A block's forward is the call of its module; its backward begins
when autograd reaches the node of its output, or recomputes the block, and ends when that of another
block begins. Nothing is added to a graph but a hook that returns nothing. Units of a program's
first model have their names in that model; those of other models are prefixed with the model's
name.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from zerosim.trace import labels
from zerosim.trace.autolabel.names import Names
from zerosim.trace.autolabel.optimizers import Optimizers
from zerosim.trace.blocks import default_blocks
from zerosim.trace.eager import uncompiled
from zerosim.trace.sink import Position

_KIND = ("dtype", "trainable", "has_gradient", "states")
_WRAPPED = ("module", "_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module")
"""Attributes in which wrappers keep the wrapped module."""


@dataclass(slots=True)
class Passes:
    """Number of forwards with gradients and of backwards of each model in a micro-step.

    Attributes:
        here: the iteration and the number of the micro-step.
        returns: how many forwards its backwards went back through: a loss of several forwards has
            one backward.
    """

    here: tuple[int, int] = (-1, 0)
    forwards: weakref.WeakKeyDictionary[nn.Module, int] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    backwards: weakref.WeakKeyDictionary[nn.Module, int] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    returns: weakref.WeakKeyDictionary[nn.Module, int] = field(
        default_factory=weakref.WeakKeyDictionary
    )


class Units:
    """Follows the blocks of every model that computes.

    Attributes:
        names: names of their parameters.
        optimizers: those that stepped.
        evaluated: models that computed without gradients.
        models: the parameters of models that no system divides, as observed when the last update
            began, by the models' prefixes.
        is_piped: the models are driven by a pipeline, micro-batch by micro-batch.
        follows_at_once: in backward, a unit is about to begin, and nothing ran since the end of the
            previous one.
    """

    def __init__(self) -> None:
        self.names = Names()
        self.optimizers = Optimizers()
        self.is_piped = False
        self.follows_at_once = False
        self._hooks: dict[str, Callable[..., None]] = {}
        self._units: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._labels: weakref.WeakKeyDictionary[nn.Module, str] = weakref.WeakKeyDictionary()
        self._inside: weakref.WeakKeyDictionary[nn.Module, weakref.WeakSet[nn.Module]]
        self._inside = weakref.WeakKeyDictionary()
        self.evaluated: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        self.models: dict[str, list[dict[str, object]]] = {}
        self._passes = Passes()
        self._settled: Passes | None = None
        self._counted: weakref.WeakKeyDictionary[nn.Module, tuple[int, int]]
        self._counted = weakref.WeakKeyDictionary()
        self._gone_back: weakref.WeakKeyDictionary[nn.Module, set[int]]
        self._gone_back = weakref.WeakKeyDictionary()
        self._num_forwards = 0
        self._unseen: weakref.WeakSet[nn.Module] = weakref.WeakSet()
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

    def modules(self) -> list[tuple[nn.Module, str]]:
        """The modules of all units, with their names."""
        return list(self._units.items())

    def name_of(self, module: nn.Module) -> str:
        """The name of a module as a unit; "" if it is not one."""
        return self._units.get(module, "")

    def roots(self) -> list[tuple[nn.Module, str]]:
        """The models that computed, with a distinguishing prefix."""
        return [(root, self.label(root)) for root in self._inside]

    def classes(self) -> dict[str, str]:
        """The class of each unit's module."""
        return {name: class_name(unwrapped(module)) for module, name in self._units.items()}

    def label(self, module: nn.Module) -> str:
        """The distinguishing prefix of a module's model; "" for the first."""
        return self._labels.get(module, "")

    def see_models(self, divided: Collection[str]) -> None:
        """An update begins: observe the parameters of models that no system divides.

        Args:
            divided: the prefixes of the other models.
        """
        if not divided:
            return
        beside = [(root, label) for root, label in self.roots() if label not in divided]
        beside += [
            (root, f"{class_name(unwrapped(root))}, evaluated")
            for root in self.evaluated
            if not any(module in self._labels for module in root.modules())
        ]
        seen: set[int] = set()
        found: dict[str, Counter[tuple[object, ...]]] = {}
        for root, label in beside:
            of_model = found.setdefault(label, Counter())
            parameters = list(root.parameters())
            if any(hasattr(one, "_local_tensor") for one in parameters):
                continue  # a system that has not seen it yet divides it: nothing is recorded
            for one in parameters:
                if id(one) not in seen:
                    seen.add(id(one))
                    of_model[self._kind(one)] += one.numel()
        self.models = {
            label: [
                {"elements": size, **dict(zip(_KIND, kind, strict=True))}
                for kind, size in sizes.items()
            ]
            for label, sizes in found.items()
        }

    def _kind(self, parameter: torch.Tensor) -> tuple[object, ...]:
        """What distinguishes a model's parameters."""
        states = self.optimizers.states(parameter)
        return (
            str(parameter.dtype).removeprefix("torch."),
            parameter.requires_grad,
            parameter.grad is not None,
            None if states is None else " ".join(states),
        )

    def is_at(self, position: Position) -> bool:
        """The program computes here; returns whether a micro-step, or a pipeline's step, begins."""
        here = position.iteration, 0 if self.is_piped else position.micro_step
        is_new = self._passes.here != here
        if is_new:
            self._passes = Passes(here)
        return is_new

    def forward_begins(self, root: nn.Module) -> bool:
        """A model computes with gradients; returns whether it had not yet in this micro-step."""
        self._passes.forwards[root] = count = self._passes.forwards.get(root, 0) + 1
        self._counted.clear()
        return count == 1

    def forward_ends(self, root: nn.Module, output: Any) -> None:
        """It has computed; a backward that reaches the node of its output passes through it.

        If the origin of the output is unknown, any backward does, unless no parameter of the model
        is trained.
        """
        made_by = [tensor.grad_fn for tensor in _tensors(output) if tensor.grad_fn is not None]
        self._unseen.discard(root)
        if not made_by and is_trained(root):
            self._unseen.add(root)
        reference = weakref.ref(root)
        self._num_forwards += 1
        goes_back = functools.partial(self._root_goes_back, reference, self._num_forwards)
        for node in dict.fromkeys(made_by):
            node.register_prehook(goes_back)

    def gone_back(self, module: nn.Module) -> bool:
        """Whether this backward has reached a module's model."""
        roots = (*self._gone_back, *self._unseen)
        return any(module in self._inside.get(root, ()) for root in roots)

    def backward_over(self, *, adds: bool) -> None:
        """A backward ended; it counts if it added to gradients."""
        self._counted.clear()
        for root in (*self._gone_back, *self._unseen) if adds else ():
            passes, count = self._passes, len(self._gone_back.get(root, (0,)))
            passes.backwards[root] = passes.backwards.get(root, 0) + 1
            passes.returns[root] = passes.returns.get(root, 0) + count
        self._gone_back.clear()
        if adds:
            self._unseen.clear()

    def are_gradients_of_all(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether every model that this micro-step's backwards reached has some of these."""
        cleared = {id(one) for one in parameters}
        return bool(self._passes.backwards) and all(
            any(id(one) in cleared for one in root.parameters()) for root in self._passes.backwards
        )

    def settle(self) -> None:
        """A backward or a micro-step ended: it is now known how often each model computed in it."""
        if self._settled is not self._passes:
            self._settled = self._passes
            self._counted.clear()

    def passes(self, module: nn.Module) -> tuple[int, int]:
        """Forwards and backwards of a module's model, in the micro-step settled last.

        In a pipeline, and until the numbers are known, one of each.
        """
        if self._settled is None or self.is_piped:
            return 1, 1
        known = self._counted.get(module)
        if known is None:
            forwards, backwards = (
                sum(count for root, count in counts.items() if module in self._inside.get(root, ()))
                for counts in (self._settled.forwards, self._settled.backwards)
            )
            known = self._counted[module] = forwards, backwards
        return known

    def returns(self, module: nn.Module) -> int:
        """The number of forwards that those backwards passed through."""
        if self._settled is None or self.is_piped:
            return 1
        counts = self._settled.returns.items()
        return sum(count for root, count in counts if module in self._inside.get(root, ()))

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
        for tensor in (output,) if isinstance(output, torch.Tensor) else tree_leaves(output):
            made_by = tensor.grad_fn if isinstance(tensor, torch.Tensor) else None
            if made_by is not None:
                hook = self._hooks.get(name)
                if hook is None:
                    hook = self._hooks[name] = functools.partial(self._goes_back, name)
                made_by.register_prehook(hook)

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
    def _root_goes_back(self, reference: weakref.ref[nn.Module], number: int, *_: Any) -> None:
        """Autograd reached the node of a model's output, from the forward of this number."""
        root = reference()
        if root is not None:
            self._gone_back.setdefault(root, set()).add(number)

    @uncompiled
    def _goes_back(self, name: str, *_: Any) -> None:
        """Autograd reached a unit."""
        before, event = self._going_back
        if before != name:
            labels.end(event)
            self.follows_at_once = event is not None
            self._going_back = (name, labels.begin_compute(name))
            self.follows_at_once = False

    def _label(self, root: nn.Module, inner: nn.Module) -> str:
        known = [label for module in root.modules() if (label := self._labels.get(module))]
        is_first = not self._taken
        name = unique(self._taken, class_name(inner))
        if is_first or any(module in self._labels for module in root.modules()):
            return known[0] if known else ""
        return name


def _tensors(output: Any) -> list[torch.Tensor]:
    """The tensors in a model's output, also in a dict or a custom record."""
    if isinstance(output, torch.Tensor):
        return [output]
    found: list[torch.Tensor] = []
    for leaf in tree_leaves(output):
        if isinstance(leaf, torch.Tensor):
            found.append(leaf)
        elif isinstance(leaf, Mapping):
            found += _tensors(list(leaf.values()))
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            found += _tensors([getattr(leaf, one.name) for one in fields(leaf)])
    return found


def is_trained(root: nn.Module) -> bool:
    """Whether any parameter is trainable: a reference model or teacher has none."""
    return any(parameter.requires_grad for parameter in root.parameters())


def unwrapped(root: nn.Module) -> nn.Module:
    """The model within its wrappers (DDP, torch.compile, DeepSpeed's engine ...)."""
    while True:
        children = dict(root.named_children())
        inner = next((children[name] for name in _WRAPPED if name in children), None)
        if inner is None or len(children) > 1:
            return root
        root = inner


def class_name(module: nn.Module) -> str:
    """A model's class, before a system derived one from it."""
    return type(module).__name__.removeprefix("FSDP").removeprefix("Replicate")


def clean(name: str) -> str:
    """A module's or parameter's name without those of wrappers."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPED)


def qualified(label: str, name: str) -> str:
    """A name within the model that has this label."""
    return f"{label}: {name}" if label else name


def unique(taken: dict[str, int], name: str) -> str:
    """`name`, with a number appended if it is already taken."""
    taken[name] = number = taken.get(name, 0) + 1
    return name if number == 1 else f"{name} {number}"
