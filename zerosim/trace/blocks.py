"""The blocks of a model: modules that compute and communicate as one unit."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

_LISTS = (nn.ModuleList, nn.ModuleDict)
_CONTAINERS = (*_LISTS, nn.Sequential)
NEVER_CALLED = (*_LISTS, nn.ParameterList, nn.ParameterDict)
"""Modules that only contain others: their hooks never fire."""


def default_blocks(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Each child of a container, and each direct child that contains no container, by name.

    A container is a ModuleList, a ModuleDict or a Sequential. Modules without parameters are not
    blocks.
    """

    def walk(module: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
        for name, child in module.named_children():
            path = f"{prefix}{name}"
            if isinstance(child, _LISTS):
                yield from walk(child, f"{path}.")
            elif isinstance(child, NEVER_CALLED) or not any(True for _ in child.parameters()):
                continue
            elif isinstance(module, _CONTAINERS):
                yield path, child
            elif any(isinstance(inner, _CONTAINERS) for inner in child.modules()):
                yield from walk(child, f"{path}.")
            elif module is model:
                yield path, child

    yield from walk(model, "")
