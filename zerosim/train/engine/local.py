"""A rank's local shard of a DTensor parameter (tensor parallelism); else the whole parameter.

The engine flattens, frees and updates these shards.
"""

from __future__ import annotations

import sys
from typing import Any, TypeGuard

import torch
from torch import nn


def is_dtensor(tensor: torch.Tensor) -> TypeGuard[Any]:
    """Whether it is a DTensor, with a local shard on this rank."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local_part(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's local shard, without a copy."""
    part: torch.Tensor = tensor._local_tensor if is_dtensor(tensor) else tensor  # noqa: SLF001
    return part


def set_local_part(parameter: nn.Parameter, values: torch.Tensor) -> None:
    """Replace the values of a parameter's part, with any dtype; the object stays the same."""
    if not is_dtensor(parameter):
        parameter.data = values
        return
    # a DTensor wraps its shard: assigning `data` would change only the wrapper
    shell: Any = parameter
    if parameter.dtype != values.dtype:
        changed = nn.Parameter(parameter.detach().to(values.dtype), parameter.requires_grad)
        torch.utils.swap_tensors(parameter, changed)
    shell._local_tensor = values  # noqa: SLF001


def local_gradient(parameter: nn.Parameter) -> torch.Tensor | None:
    """The part of the gradient that belongs to this rank's part of the parameter."""
    gradient = parameter.grad
    if gradient is None or not is_dtensor(gradient):
        return gradient
    shell: Any = parameter
    # nothing is sent if it is sharded like the parameter, as after parallelize_module
    alike: torch.Tensor = shell.grad.redistribute(placements=shell.placements)
    return local_part(alike)


def full_tensor(parameter: nn.Parameter, part: torch.Tensor) -> torch.Tensor:
    """The full parameter, assembled from the shards of all ranks: a collective."""
    if not is_dtensor(parameter):
        return part
    shell: Any = parameter
    kind = type(shell)
    divided = kind.from_local(part, shell.device_mesh, shell.placements, run_check=False)
    found: torch.Tensor = divided.full_tensor()
    return found
