"""Roles of memory in a program without labels: found by walking modules and optimizers.

    a module's parameters         parameters; if partitioned, the whole ones: gathered parameters
    their .grad                   gradients
    an optimizer's own tensors    momentum, variance, or an fp32 master copy

Each is registered on use, by a module that computes or an optimizer that steps, and in the next
trace again only on use. An engine that declares its tensors does not need this.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.hooks import RemovableHandle

from zerosim.schema.memory import OUTSIDE_THE_MODEL, ROLE_OF_STATE, Role
from zerosim.trace import labels
from zerosim.trace.autolabel import modules
from zerosim.trace.autolabel.observer import Shard
from zerosim.trace.guard import guarded
from zerosim.trace.holdings import HeldStorage, HeldStorages, storage_of
from zerosim.trace.looking import Content
from zerosim.trace.threads import is_computing


class _MetParameter:
    """A parameter that was found.

    Attributes:
        gradient: the most recent one.
        held: its storage.
    """

    __slots__ = ("gradient", "held", "reference", "unit")

    def __init__(self, reference: weakref.ref[torch.Tensor], unit: str) -> None:
        self.reference = reference
        self.unit = unit
        self.gradient: Callable[[], torch.Tensor | None] = _none
        self.held: HeldStorage | None = None


class _MetGradient(weakref.ref[torch.Tensor]):
    """A gradient that was found for this parameter."""

    __slots__ = ("of",)

    of: _MetParameter


def _none() -> None:
    """No gradient was found."""


class Discovery:
    """Registers its findings with the holdings."""

    def __init__(
        self,
        holdings: HeldStorages,
        shards: Callable[[nn.Module], Iterable[Shard]],
        kept: Callable[..., Iterable[Content]],
    ) -> None:
        """Start with nothing registered.

        Args:
            shards: the shards of a module's partitioned parameters.
            kept: buffers and gradients inside systems, as in `Observer.kept`.
        """
        self._holdings = holdings
        self._kept = kept
        self._shards = shards
        self._hooks: list[RemovableHandle] = []
        self._sharded: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
        self._parameters: dict[int, _MetParameter] = {}
        self._waiting: dict[int, _MetParameter] = {}
        self._lost: deque[Any] = deque()
        self._unit = ""
        self._sizes: weakref.WeakKeyDictionary[torch.optim.Optimizer, int]
        self._sizes = weakref.WeakKeyDictionary()

    def install(self) -> None:
        """Start to observe use."""
        modules.watch(self)
        self._hooks = [register_optimizer_step_post_hook(self._optimizer_stepped)]

    def remove(self) -> None:
        """Stop looking."""
        modules.unwatch(self)
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def find_gradients(self, *, wholly: bool) -> None:
        """Register new gradients, or all of them if `wholly`.

        Between phase borders, only parameters are checked that had no gradient at the last check,
        or whose gradient is gone.
        """
        if wholly:
            self._lost.clear()
            self._look_at_all()
            return
        self._meet_kept(wholly=False)
        while self._lost:
            one = self._lost.popleft().of
            self._waiting[id(one)] = one
        found = [
            (one, gradient)
            for one in self._waiting.values()
            if (parameter := one.reference()) is not None
            and (gradient := parameter.grad) is not None
        ]
        for one, gradient in found:
            del self._waiting[id(one)]
            self._meet_gradient(one, gradient)

    def _look_at_all(self) -> None:
        self._meet_kept(wholly=True)
        self._waiting.clear()
        for number, one in list(self._parameters.items()):
            parameter = one.reference()
            if parameter is None:
                del self._parameters[number]
                continue
            gradient = parameter.grad
            if gradient is None:
                self._waiting[id(one)] = one
            elif one.gradient() is not gradient or not self._is_where_it_was(one, gradient):
                self._meet_gradient(one, gradient)

    def _meet_kept(self, *, wholly: bool) -> None:
        for role, unit, tensor in self._kept(wholly=wholly):
            self._meet(tensor, role, unit)

    def _meet_gradient(self, one: _MetParameter, gradient: torch.Tensor) -> None:
        one.gradient = reference = _MetGradient(gradient, self._lost.append)
        reference.of = one
        one.held = self._meet(gradient, Role.GRADIENTS, one.unit)

    def _is_where_it_was(self, one: _MetParameter, gradient: torch.Tensor) -> bool:
        storage = storage_of(local_of(gradient))
        return (None if storage is None else self._holdings.get(storage)) is one.held

    @guarded
    def module_begins(self, module: nn.Module) -> bool:
        """A module computes."""
        if labels.is_described() or not is_computing():
            return True
        sharded = self._sharded.get(module)
        if sharded is None:
            # a different module computes, and it is not part of that one
            self._unit = OUTSIDE_THE_MODEL if modules.is_inside() else ""
            whole = {id(one) for inner in module.modules() for one in self._met_shards(inner)}
            for inner in module.modules():
                self._meet_module(inner, whole)
        elif sharded:
            self._meet_whole(module)
        return self._sharded[module] if sharded is None else sharded

    @guarded
    def module_ends(self, module: nn.Module, *_: Any) -> None:
        """The module has computed: its call may have gathered parameters for the first time."""
        if self._sharded.get(module) and not labels.is_described() and is_computing():
            self._meet_whole(module)

    def _meet_whole(self, module: nn.Module) -> None:
        """Meet the parameters that are whole for now, or were and will be again."""
        self._unit = ""
        for parameter in module._parameters.values():
            if parameter is not None and not _is_sharded(parameter):
                self._meet_parameter(parameter, Role.GATHERED)
        for shard in self._shards(module):
            if isinstance(shard.whole, nn.Parameter):
                self._meet_parameter(shard.whole, Role.GATHERED)
            elif shard.whole is not None:
                self._meet(shard.whole, Role.GATHERED, "")

    def _met_shards(self, module: nn.Module) -> Iterator[torch.Tensor]:
        """Register partitioned parameters that may be gathered now; yields the gathered ones."""
        for shard in self._shards(module):
            if shard.is_parameter:
                self._meet_parameter(shard.kept, Role.PARAMETERS)
            else:
                self._meet(shard.kept, Role.PARAMETERS, self._unit)
            if shard.whole is not None:
                yield shard.whole

    def _meet_module(self, module: nn.Module, whole: Collection[int]) -> None:
        """Register the module's own parameters.

        Args:
            whole: by identity, the gathered parameters that have a separate shard.
        """
        own = list(module.parameters(recurse=False))
        is_divided = any(_is_sharded(one) or id(one) in whole for one in own)
        self._sharded[module] = is_divided or any(True for _ in self._shards(module))
        for parameter in own:
            is_gathered = id(parameter) in whole
            self._meet_parameter(parameter, Role.GATHERED if is_gathered else Role.PARAMETERS)

    def _meet_parameter(self, parameter: torch.Tensor, role: Role) -> None:
        self._meet(parameter, role, self._unit)
        known = self._parameters.get(id(parameter))
        if known is None or known.reference() is not parameter:
            one = _MetParameter(weakref.ref(parameter), self._unit)
            self._parameters[id(parameter)] = self._waiting[id(one)] = one
        else:
            known.unit = self._unit

    @guarded
    def _optimizer_stepped(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if labels.is_described() or not is_computing():
            return
        num_states = sum(len(state) for state in optimizer.state.values())
        if self._sizes.get(optimizer) == num_states:
            return
        self._sizes[optimizer] = num_states
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._meet(parameter, Role.MASTER, "")
        for parameter, state in optimizer.state.items():
            known = self._parameters.get(id(parameter))
            unit = known.unit if known is not None else ""
            for name, value in state.items():
                if name in ROLE_OF_STATE and isinstance(value, torch.Tensor):
                    self._meet(value, ROLE_OF_STATE[name], unit)

    def _meet(self, tensor: torch.Tensor, role: Role, unit: str) -> HeldStorage | None:
        """Register a tensor's role, unless it is known; an unnamed buffer may turn out to be a
        gradient, or a system's named buffer.

        Returns:
            The entry of its storage; None if it has no storage.
        """
        local = local_of(tensor)
        storage = storage_of(local)
        if storage is None:
            return None
        held = self._holdings.get(storage)
        is_nameless = held is not None and held.role is Role.BUFFERS and not held.unit
        if held is None or (is_nameless and (role is not Role.BUFFERS or unit)):
            return self._holdings.find_out(storage, local, role, unit)
        return held


def local_of(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's shard of a partitioned tensor."""
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


def _is_sharded(parameter: torch.Tensor) -> bool:
    return hasattr(parameter, "_local_tensor")
