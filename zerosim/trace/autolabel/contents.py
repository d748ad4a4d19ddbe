"""The tensors of a paused program, by role and unit.

Parameters are found in the models that computed, gradients beside them, optimizer states in the
optimizers. For a sharded parameter, this rank's shard is a parameter, the whole a gathered one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import nn

from zerosim.schema.memory import ROLE_OF_STATE, Role
from zerosim.trace.autolabel.discovery import local_of
from zerosim.trace.autolabel.observer import Shard
from zerosim.trace.looking import Content


def contents(
    units: Iterable[tuple[nn.Module, str]],
    optimizers: Iterable[torch.optim.Optimizer],
    shards: Callable[[nn.Module], Iterable[Shard]],
) -> Iterator[Content]:
    """The tensors of the modules of some units and of some optimizers, without duplicates.

    Args:
        shards: the shards of a module's partitioned parameters.
    """
    unit_of: dict[int, str] = {}
    # of two nested units, the tensors of the inner one are its own
    for module, unit in sorted(units, key=lambda one: -sum(1 for _ in one[0].modules())):
        for inner in module.modules():
            for parameter, _ in _parameters(inner, shards):
                unit_of[id(parameter)] = unit
    yield from _of_modules(list(units), unit_of, shards)
    for optimizer in list(optimizers):
        for parameter, state in list(optimizer.state.items()):
            for name, value in state.items():
                if name in ROLE_OF_STATE and isinstance(value, torch.Tensor):
                    unit = unit_of.get(id(parameter), "")
                    yield Content(ROLE_OF_STATE[name], unit, local_of(value))


def _of_modules(
    units: Iterable[tuple[nn.Module, str]],
    unit_of: dict[int, str],
    shards: Callable[[nn.Module], Iterable[Shard]],
) -> Iterator[Content]:
    seen: set[int] = set()
    for module, _ in units:
        for inner in module.modules():
            for parameter, role in _parameters(inner, shards):
                if id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                unit = unit_of[id(parameter)]
                yield Content(role, unit, local_of(parameter.detach()))
                if parameter.grad is not None:
                    yield Content(Role.GRADIENTS, unit, local_of(parameter.grad))


def _parameters(
    module: nn.Module, shards: Callable[[nn.Module], Iterable[Shard]]
) -> Iterator[tuple[torch.Tensor, Role]]:
    """A module's own parameters, including the shards of partitioned ones."""
    whole: set[int] = set()
    for shard in shards(module):
        if shard.is_parameter:
            yield shard.kept, Role.PARAMETERS
            whole.add(id(shard.whole))
    for parameter in module._parameters.values():
        if parameter is not None:
            yield parameter, Role.GATHERED if id(parameter) in whole else Role.PARAMETERS
