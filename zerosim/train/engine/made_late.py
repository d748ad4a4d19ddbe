"""Parameters of a model on the meta device, which have no memory, materialized by module.

Each module with parameters or buffers of its own is given memory and initialized with its
`reset_parameters`, in order of registration. PyTorch's layers initialize the same way when they are
constructed, so under the same seed the values are those of a model built whole, if its modules are
constructed in that order and nothing is initialized again afterwards. A complete unit is
partitioned before the next module is materialized: no rank ever has the whole model. The calls are
those of PyTorch's FSDP: `to_empty`, then `reset_parameters`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from zerosim.base.errors import ConfigError
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold
from zerosim.train.engine.flat import FlatUnit


def device_of(model: nn.Module) -> torch.device:
    """The device of a model; for one on the meta device, PyTorch's default device."""
    device = next(iter(model.parameters())).device
    return torch.get_default_device() if device.type == "meta" else device


def require_makeable(model: nn.Module) -> None:
    """Check that parameters without memory can be initialized by their modules.

    Raises:
        ConfigError: a module has no `reset_parameters`, or shares a parameter with another.
    """
    seen: dict[torch.Tensor, str] = {}
    for name, module in model.named_modules():
        own = list(_without_memory(module))
        if own and not callable(getattr(module, "reset_parameters", None)):
            raise ConfigError(
                f"{name or 'the model'} ({type(module).__name__}) is on the meta device and has no "
                "reset_parameters: give it one, or create the model on its device"
            )
        for tensor in own:
            if tensor in seen:
                raise ConfigError(
                    f"{name} shares a parameter with {seen[tensor]} and is on the meta device: "
                    "it is ambiguous which of the two initializes it; create the model on its "
                    "device"
                )
            seen[tensor] = name


def as_made(
    model: nn.Module, units: Sequence[FlatUnit], device: torch.device
) -> Iterator[FlatUnit]:
    """Each unit as soon as its parameters exist; for a model with memory, in order."""
    waiting = list(units)
    for module in model.modules():
        own = list(_without_memory(module))
        for tensor in own:
            _give_memory(tensor, device)
        if own:
            draw: Any = module  # `require_makeable` has checked that it exists
            draw.reset_parameters()
        for flat in [flat for flat in waiting if own and _is_made(flat)]:
            waiting.remove(flat)
            yield flat
    yield from waiting


def _without_memory(module: nn.Module) -> Iterator[torch.Tensor]:
    """The module's own parameters and buffers."""
    for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
        if tensor.is_meta:
            yield tensor


def _is_made(flat: FlatUnit) -> bool:
    return not any(slot.parameter.is_meta for slot in flat.unit.slots)


def _give_memory(tensor: torch.Tensor, device: torch.device) -> None:
    """Memory for a parameter or buffer, which stays the same object; its contents are undefined."""
    made = torch.empty_like(tensor, device=device)
    if isinstance(tensor, nn.Parameter):
        hold(made, Role.PARAMETERS, "")
        made = nn.Parameter(made, tensor.requires_grad)
    torch.utils.swap_tensors(tensor, made)
