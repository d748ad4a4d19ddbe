"""The private state of FSDP2's groups of parameters, which is read and never changed."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch.distributed as dist
from torch import nn

from zerosim.schema.strategies import Bundle, Parameter
from zerosim.trace.autolabel.observer import (
    Written,
    dtype_name,
    ranks_of,
    written,
)
from zerosim.trace.autolabel.units import (
    clean,
)

_SWITCHES = {
    "reshards_after_forward": "_reshard_after_forward",
    "reshards_after_backward": "reshard_after_backward",
    "reduces": "reduce_grads",
    "all_reduces": "all_reduce_grads",
}
"""Switches of a group, by their names in a strategy and in FSDP2."""
switches_of = attrgetter(*_SWITCHES.values())


@dataclass(slots=True)
class GroupUse:
    """The use of all models in a micro-step.

    Attributes:
        unused: groups whose modules did not compute.
        without: for reducing groups, the parameters without a gradient.
        is_seen: whether `unused` is known.
    """

    unused: weakref.WeakSet[Any] = field(default_factory=weakref.WeakSet)
    without: weakref.WeakKeyDictionary[Any, list[Any]] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    is_seen: bool = False


def written_as(parameter: Any) -> Written:
    """The gradient of a parameter in the form that a trace records."""
    return written(parameter.sharded_param.grad)


def is_trainable(parameter: Any) -> bool:
    """Whether a parameter gets a gradient."""
    return bool(parameter.sharded_param.requires_grad)


def num_forwards(group: Any) -> int:
    """The number of groups that no backward has reached; -1 if this version does not record it."""
    found = getattr(group, "_post_forward_indices", None)
    return -1 if found is None else len(found)


def groups_of(module: Any) -> list[Any]:
    """A module's parameter groups: none if it is not wrapped, several with newer PyTorch."""
    if not hasattr(module, "_get_fsdp_state"):
        return []
    state = module._get_fsdp_state()
    several = getattr(state, "_fsdp_param_groups", None)
    one = getattr(state, "_fsdp_param_group", None)
    return list(several) if several else [one] if one is not None else []


def _switches(group: Any) -> dict[str, object]:
    return {name: bool(value) for name, value in zip(_SWITCHES, switches_of(group), strict=True)}


def reached_modules(model: nn.Module) -> tuple[set[nn.Module], set[nn.Module]]:
    """The modules whose output has a gradient, and those whose input has one as well."""
    is_trained, names, fed = False, set[str](), set[str]()
    seen: set[str] = set()
    for name, parameter in model.named_parameters():
        parts = name.split(".")[:-1]
        prefixes = {".".join(parts[:depth]) for depth in range(len(parts) + 1)}
        fed |= (prefixes - seen) if is_trained else set()
        seen |= prefixes
        is_trained |= parameter.requires_grad
        if is_trained:
            names |= prefixes
    modules = dict(model.named_modules())
    return (
        {module for name, module in modules.items() if name in names},
        {module for name, module in modules.items() if name in fed},
    )


def bundle_of(
    group: Any,
    name: str,
    names: dict[int, str],
    *,
    is_whole: bool,
    is_reached: bool,
    is_fed: bool,
    use: GroupUse,
) -> Bundle:
    """A group as a bundle of a strategy."""
    first = group.fsdp_params[0]
    # from PyTorch 2.15 on, each parameter has its own
    policy = getattr(group, "mp_policy", None) or first.mp_policy
    orig = first.sharded_param.dtype
    parameter_dtype = policy.param_dtype or orig
    mesh, after = group.mesh_info, group.post_forward_mesh_info
    options: dict[str, object] = {
        "shard_ranks": list(_shard_ranks(mesh)),
        "replicate_ranks": list(_replicate_ranks(mesh)),
        "parameter_dtype": dtype_name(parameter_dtype),
        "reduce_dtype": dtype_name(policy.reduce_dtype or parameter_dtype),
        "shard_dims": [_shard_dim(one) for one in group.fsdp_params],
        "starts_whole": is_whole,
        "is_reached": is_reached,
        "is_fed": is_fed,
        "is_used": group not in use.unused,
        "without_gradient": [_name_of(one, names) for one in use.without.get(group, ())],
        **_switches(group),
    }
    if after is not None and after is not mesh:
        options["reshard_ranks"] = list(_shard_ranks(after))
    return Bundle(
        name=name,
        parameters=tuple(
            Parameter(
                name=_name_of(one, names),
                shape=tuple(one.sharded_param.shape),
                dtype=dtype_name(one.sharded_param.dtype),
                trainable=one.sharded_param.requires_grad,
            )
            for one in group.fsdp_params
        ),
        options=options,
    )


def divides_anything(group: Any) -> bool:
    """Whether a group shards its parameters at all."""
    return hasattr(group.mesh_info, "shard_process_group")


def _name_of(parameter: Any, names: dict[int, str]) -> str:
    """A parameter's name in the model, which has the whole one or its shard."""
    for one in (parameter.sharded_param, getattr(parameter, "_unsharded_param", None)):
        if id(one) in names:
            return names[id(one)]
    return clean(parameter._param_fqn or "")


def _shard_dim(parameter: Any) -> int:
    dim: int = parameter.fsdp_placement.dim
    return dim


def _shard_ranks(mesh: Any) -> tuple[int, ...]:
    """Parameters under `replicate` are not sharded: this rank has all of them."""
    group = getattr(mesh, "shard_process_group", None)
    return (dist.get_rank(),) if group is None else ranks_of(group)


def _replicate_ranks(mesh: Any) -> tuple[int, ...]:
    group = getattr(mesh, "replicate_process_group", None)
    return () if group is None else ranks_of(group)


def mesh_ranks(group: Any) -> set[int]:
    """All ranks of the mesh: for a hybrid one more than this rank's shards and replicas."""
    return set(group.mesh_info.mesh.mesh.flatten().tolist())
