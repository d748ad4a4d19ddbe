"""What `fully_shard` (FSDP2, and HSDP on a mesh of two dimensions) says of itself.

Imports torch and zerosim's L0; FSDP2 is asked only if the program has imported it.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

from zerosim.events import Purpose
from zerosim.strategies import Bundle, Parameter, Strategy, System
from zerosim.trace.program.rules import Rule
from zerosim.trace.program.system import dtype_name, named_parameters, ranks_in_use, ranks_of
from zerosim.trace.program.units import Units, clean, qualified, unique, unwrapped

_FILE = "/fsdp/_fully_shard/_fsdp_param_group.py"
_MODULE = "torch.distributed.fsdp._fully_shard._fully_shard"


class FullyShard:
    """Every model with modules that were given to `fully_shard`. Implements `system.Observed`."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._taken: dict[str, int] = {}
        self._models: weakref.WeakKeyDictionary[nn.Module, _Model] = weakref.WeakKeyDictionary()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._whole: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self.rules = (
            Rule(_FILE, "FSDPParamGroup.unshard", Purpose.GATHER_PARAMETERS, self._unit),
            Rule(_FILE, "FSDPParamGroup.post_backward", Purpose.REDUCE_GRADIENTS, self._unit),
        )

    def meet(self, thing: Any) -> None:
        """Find it in a model."""
        kind = getattr(sys.modules.get(_MODULE), "FSDPModule", None)
        if kind is None or not isinstance(thing, nn.Module):
            return
        label = self._units.label(thing)
        groups: dict[Any, str] = {}
        for name, module in thing.named_modules():
            if isinstance(module, kind):
                for number, group in enumerate(_groups(module)):
                    unit = clean(name) or "root"
                    groups.setdefault(group, f"{unit} ({number})" if number else unit)
        if not groups or any(group in self._names for group in groups):
            return
        model = _Model(
            name=unique(self._taken, type(unwrapped(thing)).__name__.removeprefix("FSDP")),
            label=label,
            groups=[weakref.ref(group) for group in groups],
        )
        self._models[thing] = model
        for group, unit in groups.items():
            self._names[group] = qualified(label, unit)

    def forward_begins(self, root: nn.Module) -> None:
        """A model computes with gradients: see what it has kept whole until now."""
        model = self._models.get(root)
        for reference in () if model is None else model.groups:
            group = reference()
            if group is not None:
                self._whole[group] = bool(group.is_unsharded)

    def settings(self) -> Hashable:
        """What a program may switch for each group."""
        return tuple(
            (self._units.took_part(thing), tuple(self._settings(group) for group in groups))
            for thing, _, groups in self._ready()
        )

    def describe(self) -> Iterator[Strategy]:
        """Each model as it is now."""
        for thing, model, groups in self._ready():
            names = named_parameters(thing)
            ranks = {rank for group in groups for rank in _mesh_ranks(group)}
            yield Strategy(
                system=System.FSDP2,
                name=model.name,
                ranks=ranks_in_use(ranks, takes_part=self._units.took_part(thing)),
                bundles=tuple(
                    _bundle(group, self._name(group), names, is_whole=self._whole.get(group, False))
                    for group in groups
                ),
                options={"label": model.label},
            )

    def _ready(self) -> Iterator[tuple[nn.Module, _Model, list[Any]]]:
        """Those that know their root: what it keeps after forward is settled in its first."""
        for thing, model in list(self._models.items()):
            groups = [group for reference in model.groups if (group := reference()) is not None]
            if groups and all(hasattr(group.comm_ctx, "device_handle") for group in groups):
                yield thing, model, groups

    def _settings(self, group: Any) -> Hashable:
        trainable = tuple(one.sharded_param.requires_grad for one in group.fsdp_params)
        return (*_switches(group).values(), self._whole.get(group, False), trainable)

    def _unit(self, frame: FrameType) -> str:
        """The wrapped module of the parameter group whose method this frame is."""
        return self._name(frame.f_locals.get("self"))

    def _name(self, group: Any) -> str:
        fqn = clean(getattr(group, "_module_fqn", None) or "") or "root"
        return self._names.get(group, fqn)


@dataclass(frozen=True, slots=True)
class _Model:
    """A model and its parameter groups, in the order of its modules."""

    name: str
    label: str
    groups: list[weakref.ref[Any]]


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


def _bundle(group: Any, name: str, names: dict[int, str], *, is_whole: bool) -> Bundle:
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
        "starts_whole": is_whole,
        **_switches(group),
    }
    if after is not None and after is not mesh:
        options["reshard_ranks"] = list(_shard_ranks(after))
    return Bundle(
        name=name,
        parameters=tuple(
            Parameter(
                name=names.get(id(one.sharded_param), clean(one._param_fqn or "")),
                shape=tuple(one.sharded_param.shape),
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
