"""What `fully_shard` (FSDP2, and HSDP on a mesh of two dimensions) says of itself.

Imports torch and zerosim's L0; FSDP2 is asked only if the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from types import FrameType
from typing import Any

from torch import nn

from zerosim.events import Purpose
from zerosim.strategies import Bundle, Parameter, Strategy, System
from zerosim.trace.program.rules import Rule
from zerosim.trace.program.system import dtype_name, ranks_of
from zerosim.trace.program.units import clean

_FILE = "/fsdp/_fully_shard/_fsdp_param_group.py"
_MODULE = "torch.distributed.fsdp._fully_shard._fully_shard"


def _unit(frame: FrameType) -> str:
    """The wrapped module of the parameter group whose method this frame is."""
    return _name(frame.f_locals.get("self"))


def _name(group: Any) -> str:
    return clean(getattr(group, "_module_fqn", None) or "") or "root"


class FullyShard:
    """Every model with modules that were given to `fully_shard`. Implements `system.Observed`."""

    rules = (
        Rule(_FILE, "FSDPParamGroup.unshard", Purpose.GATHER_PARAMETERS, _unit),
        Rule(_FILE, "FSDPParamGroup.post_backward", Purpose.REDUCE_GRADIENTS, _unit),
    )

    def __init__(self) -> None:
        self._models: dict[nn.Module, list[Any]] = {}

    def meet(self, thing: Any) -> None:
        """Find it in a model."""
        kind = getattr(sys.modules.get(_MODULE), "FSDPModule", None)
        if kind is None or not isinstance(thing, nn.Module):
            return
        groups = [
            group
            for module in thing.modules()
            if isinstance(module, kind)
            for group in _groups(module)
        ]
        if groups:
            self._models[thing] = groups

    def settings(self) -> Hashable:
        """What a program may switch for each group."""
        return tuple(
            (_name(group), *_switches(group).values())
            for groups in self._ready().values()
            for group in groups
        )

    def describe(self) -> Iterator[Strategy]:
        """Each model as it is now."""
        for model, groups in self._ready().items():
            names = {
                id(parameter): clean(name)
                for name, parameter in model.named_parameters(remove_duplicate=False)
            }
            ranks = {rank for group in groups for rank in _mesh_ranks(group)}
            yield Strategy(
                system=System.FSDP2,
                name=type(model).__name__.removeprefix("FSDP"),
                ranks=tuple(sorted(ranks)),
                bundles=tuple(_bundle(group, names) for group in groups),
            )

    def _ready(self) -> dict[nn.Module, list[Any]]:
        """Those that know their root: what it keeps after forward is settled in its first."""
        return {
            model: groups
            for model, groups in self._models.items()
            if all(group._module_fqn is not None for group in groups[1:])
        }


def _groups(module: Any) -> list[Any]:
    """The parameter groups of a wrapped module; newer PyTorch may keep several."""
    state = module._get_fsdp_state()
    several = getattr(state, "_fsdp_param_groups", None)
    one = getattr(state, "_fsdp_param_group", None)
    return list(several) if several else [one] if one is not None else []


def _switches(group: Any) -> dict[str, object]:
    return {
        "reshards_after_forward": bool(group._reshard_after_forward),
        "reshards_after_backward": bool(group.reshard_after_backward),
        "reduces": bool(group.reduce_grads),
        "all_reduces": bool(group.all_reduce_grads),
    }


def _bundle(group: Any, names: dict[int, str]) -> Bundle:
    policy = group.mp_policy
    first = group.fsdp_params[0]
    orig = first.sharded_param.dtype
    parameter_dtype = policy.param_dtype or orig
    mesh, after = group.mesh_info, group.post_forward_mesh_info
    options: dict[str, object] = {
        "shard_ranks": list(_shard_ranks(mesh)),
        "replicate_ranks": list(_replicate_ranks(mesh)),
        "parameter_dtype": dtype_name(parameter_dtype),
        "reduce_dtype": dtype_name(policy.reduce_dtype or parameter_dtype),
        "shard_dims": [_shard_dim(one) for one in group.fsdp_params],
        **_switches(group),
    }
    if after is not None and after is not mesh:
        options["reshard_ranks"] = list(_shard_ranks(after))
    return Bundle(
        name=_name(group),
        parameters=tuple(
            Parameter(
                name=names.get(id(one.sharded_param), clean(one._param_fqn or "")),
                shape=tuple(one._orig_size),
                dtype=dtype_name(one.sharded_param.dtype),
                trainable=one.sharded_param.requires_grad,
            )
            for one in group.fsdp_params
        ),
        options=options,
    )


def _shard_dim(parameter: Any) -> int:
    dim: int = parameter.fsdp_placement.dim
    return dim


def _shard_ranks(mesh: Any) -> tuple[int, ...]:
    return ranks_of(mesh.shard_process_group) if hasattr(mesh, "shard_process_group") else ()


def _replicate_ranks(mesh: Any) -> tuple[int, ...]:
    group = getattr(mesh, "replicate_process_group", None)
    return () if group is None else ranks_of(group)


def _mesh_ranks(group: Any) -> set[int]:
    return {*_shard_ranks(group.mesh_info), *_replicate_ranks(group.mesh_info)}
