"""The state of `FullyShardedDataParallel` (FSDP1), in all its sharding strategies.

A wrapped module's parameters are one flat parameter: padded so that each begins aligned (if the
original parameters are kept, `use_orig_params`), and to a multiple of the ranks.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from zerosim.schema.events import Phase, Purpose
from zerosim.schema.memory import NOT_REDUCED_YET, Role
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.systems.fsdp1 import NAME
from zerosim.trace.autolabel.observer import (
    GivenGradients,
    Observer,
    Shard,
    dtype_name,
    options_of,
    ranks_in_use,
    ranks_of,
)
from zerosim.trace.autolabel.optimizers import Optimizers
from zerosim.trace.autolabel.rules import Rule
from zerosim.trace.autolabel.units import Units, clean, qualified, unique, unwrapped
from zerosim.trace.looking import Content

_MODULE = "torch.distributed.fsdp.fully_sharded_data_parallel"
_CLASS = "FullyShardedDataParallel"
_FLAT = "/fsdp/_flat_param.py"
_RUNTIME = "/fsdp/_runtime_utils.py"
_RESHARDS_AFTER_FORWARD = ("FULL_SHARD", "HYBRID_SHARD")
_WHOLE = ("_full_param_padded", "_full_prec_full_param_padded")
_HYBRID = ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")


@dataclass(frozen=True, slots=True)
class _FlatModel:
    """A model and its wrapped modules that have parameters, in order, by name."""

    name: str
    label: str
    modules: list[tuple[str, weakref.ref[Any]]]
    given: GivenGradients = field(default_factory=GivenGradients)

    def see_gradients(self, optimizers: Optimizers) -> None:
        """Record which flat parameters have a gradient, and the states of these or of the original
        ones in them.
        """
        flats = [
            (place, module._handle.flat_param)
            for place, (_, reference) in enumerate(self.modules)
            if (module := reference()) is not None and module._handle.flat_param.requires_grad
        ]
        self.given.see(
            (((place, -1), _gradient_of(flat)) for place, flat in flats),
            (
                ((place, number), optimizers.states(one))
                for place, flat in flats
                for number, one in [(-1, flat), *enumerate(flat._params or ())]
            ),
            optimizers.counts(),
        )


class FullyShardedModules(Observer):
    """Every model with `FullyShardedDataParallel` in it."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._taken: dict[str, int] = {}
        self._models: weakref.WeakKeyDictionary[nn.Module, _FlatModel] = weakref.WeakKeyDictionary()
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._whole: weakref.WeakKeyDictionary[nn.Module, bool] = weakref.WeakKeyDictionary()
        self._unused: weakref.WeakSet[Any] = weakref.WeakSet()
        self._now_unused: weakref.WeakSet[Any] = weakref.WeakSet()
        self._computes: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        gather, reduce = Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS
        state = Purpose.BROADCAST_STATE
        self.rules = (
            Rule(_FLAT, "FlatParamHandle.unshard", gather, self._unit_of_self),
            Rule(_RUNTIME, "_reduce_grad", reduce, self._unit),
            Rule(_RUNTIME, "_reduce_grad_no_shard", reduce, self._unit),
            Rule("/fsdp/_init_utils.py", "_sync_module_params_and_buffers", state),
            Rule("/fsdp/_exec_order_utils.py", "", Purpose.METADATA),
            Rule(
                "/fsdp/fully_sharded_data_parallel.py",
                f"{_CLASS}.clip_grad_norm_",
                Purpose.GRADIENT_NORM,
                phase=Phase.UPDATE,
            ),
            Rule(
                "/fsdp/sharded_grad_scaler.py",
                "ShardedGradScaler.unscale_",
                Purpose.OVERFLOW_FLAG,
                phase=Phase.UPDATE,
            ),
        )

    def meet(self, thing: Any) -> None:
        """Find the wrappers in a model."""
        kind = getattr(sys.modules.get(_MODULE), _CLASS, None)
        if kind is None or not isinstance(thing, nn.Module):
            return
        label = self._units.label(thing)
        found = []
        for name, module in thing.named_modules():
            handle = getattr(module, "_handle", None) if isinstance(module, kind) else None
            if handle is not None and handle not in self._names:
                self._names[handle] = qualified(label, clean(name) or "root")
                found.append((clean(name), weakref.ref(module)))
        if found:
            name = unique(self._taken, type(unwrapped(thing)).__name__)
            self._models[thing] = _FlatModel(name, label, found)

    def micro_step_begins(self) -> None:
        """Determine which units all models have kept gathered so far."""
        self._now_unused = weakref.WeakSet()
        self._computes.clear()
        for model in list(self._models.values()):
            self._see(model)

    def forward_begins(self, root: nn.Module, *, is_first: bool) -> None:
        """Determine which units the model has kept gathered."""
        model = self._models.get(root) if is_first else None
        if model is not None:
            self._computes.add(root)
            self._see(model)

    def backward_begins(self) -> None:
        """Determine which modules forward did not call, and which its order therefore lacks."""
        for root in [] if self._units.is_piped else list(self._computes):
            for _, reference in self._models[root].modules:
                module = reference()
                if module is not None and module._handle._post_forward_index is None:
                    self._now_unused.add(module)
        self._computes.clear()

    def backward_over(self, gone_back: Callable[[nn.Module], bool]) -> None:
        """Record which flat parameters have no gradient."""
        for thing, model in list(self._models.items()):
            if gone_back(thing):
                model.see_gradients(self._units.optimizers)

    def update_begins(self) -> None:
        """Record which gradients the program has left to the optimizer."""
        for model in list(self._models.values()):
            model.see_gradients(self._units.optimizers)

    def settle(self) -> None:
        """A backward or a micro-step ends."""
        self._unused = self._now_unused

    def _see(self, model: _FlatModel) -> None:
        for _, reference in model.modules:
            module = reference()
            if module is not None and module._is_root is not None:
                is_sharded = module._handle.uses_sharded_strategy
                self._whole[module] = is_sharded and not module._handle.needs_unshard()

    def shards(self, module: nn.Module) -> Iterator[Shard]:
        """The rank's part of a module's flat parameter, and the memory for the whole one."""
        kind = getattr(sys.modules.get(_MODULE), _CLASS, None)
        handle = getattr(module, "_handle", None) if kind and isinstance(module, kind) else None
        if handle is None or not handle.uses_sharded_strategy:
            return
        flat = handle.flat_param
        kept = getattr(flat, "_local_shard", flat)
        for name in _WHOLE:  # the first forward creates them
            yield Shard(kept, getattr(flat, name, None), is_parameter=False)

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """Whole gradients of backwards that did not reduce (`no_sync`)."""
        for model in list(self._models.values()) if wholly else ():
            for _, reference in model.modules:
                module = reference()
                if module is None or not module._handle.uses_sharded_strategy:
                    continue
                flat = module._handle.flat_param
                if flat.grad is not None and flat.grad.numel() > flat._sharded_size.numel():
                    yield Content(Role.GRADIENTS, NOT_REDUCED_YET, flat.grad)

    def settings(self) -> Hashable:
        """Read the options of each module, and the state after its first forward."""
        return tuple(
            (
                self._units.passes(thing),
                model.given.version,
                tuple(self._settings(module) for _, module in modules),
            )
            for thing, model, modules in self._ready()
        )

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each model."""
        for thing, model, modules in self._ready():
            bundles = tuple(self._bundle(name, module) for name, module in modules)
            ranks = {
                rank
                for bundle in bundles
                for key in ("shard_ranks", "replicate_ranks")
                for rank in bundle.options[key]  # type: ignore[attr-defined]
            }
            if any(len(b.options["replicate_ranks"]) > 1 for b in bundles):  # type: ignore[arg-type]
                ranks = set(range(dist.get_world_size()))  # its two groups make up the world
            passes = self._units.passes(thing)
            yield Strategy(
                system=NAME,
                name=model.name,
                ranks=ranks_in_use(ranks, passes),
                bundles=bundles,
                options={
                    "label": model.label,
                    **options_of(passes),
                    **model.given.options(partial(_place_name, bundles)),
                },
            )

    def _ready(self) -> Iterator[tuple[nn.Module, _FlatModel, list[tuple[str, Any]]]]:
        """Models with a known root: the root decides in its first forward what stays gathered."""
        for thing, model in list(self._models.items()):
            modules = [
                (name, module)
                for name, reference in model.modules
                if (module := reference()) is not None
            ]
            if modules and all(module._is_root is not None for _, module in modules):
                yield thing, model, modules

    def _bundle(self, prefix: str, module: Any) -> Bundle:
        handle = module._handle
        strategy = handle._sharding_strategy.name
        shards = ranks_of(module.process_group)
        replicas: tuple[int, ...] = ()
        if strategy in _HYBRID:
            replicas = ranks_of(module._inter_node_pg)
        elif not handle.uses_sharded_strategy:
            shards, replicas = (dist.get_rank(),), shards
        return Bundle(
            name=self._names[handle],
            parameters=tuple(_parameters(prefix, handle)),
            options={
                "shard_ranks": list(shards),
                "replicate_ranks": list(replicas),
                "sharding_strategy": strategy,
                "use_orig_params": bool(handle._use_orig_params),
                "parameter_dtype": dtype_name(handle._fwd_bwd_param_dtype),
                "reduce_dtype": dtype_name(handle._reduce_dtype),
                "padded_elements": _padded(handle, len(shards)),
                "comm_hook": getattr(module._comm_hook, "__qualname__", ""),
                "starts_whole": self._whole.get(module, False),
                "is_used": module not in self._unused,
                **_switches(module),
            },
        )

    def _settings(self, module: Any) -> Hashable:
        trainable = module._handle.flat_param.requires_grad
        is_unused = module in self._unused
        whole = self._whole.get(module, False)
        return (*_switches(module).values(), whole, trainable, is_unused)

    def _unit_of_self(self, frame: FrameType) -> str:
        return self._names.get(frame.f_locals.get("self"), "")

    def _unit(self, frame: FrameType) -> str:
        return self._names.get(frame.f_locals.get("handle"), "")


def _place_name(bundles: Sequence[Bundle], place: tuple[int, int]) -> str:
    """The flat parameter of a bundle, or an original one in it."""
    bundle, number = bundles[place[0]], place[1]
    return bundle.name if number < 0 else bundle.parameters[number].name


def _gradient_of(flat: Any) -> torch.Tensor | None:
    """The gradient of a flat parameter; with original ones, that of any of them."""
    found = (one.grad for one in (flat, *(flat._params or ())))
    return next((one for one in found if one is not None), None)


def _switches(module: Any) -> dict[str, object]:
    """The switches that FSDP1 sets: the root keeps its parameters from forward to backward."""
    strategy = module._handle._sharding_strategy.name
    reshards = strategy in _RESHARDS_AFTER_FORWARD
    is_sharded = module._handle.uses_sharded_strategy
    return {
        "reshards_after_forward": reshards and not module._is_root,
        "reshards_after_backward": is_sharded and (bool(module._sync_gradients) or reshards),
        "reduces": bool(module._sync_gradients),
    }


def _parameters(prefix: str, handle: Any) -> Iterator[Parameter]:
    flat = handle.flat_param
    originals = flat._params or [flat] * len(flat._fqns)
    for fqn, shape, original in zip(flat._fqns, flat._shapes, originals, strict=True):
        yield Parameter(
            name=clean(f"{prefix}.{fqn}" if prefix else fqn),
            shape=tuple(shape),
            dtype=dtype_name(handle._orig_param_dtype),  # an unsharded one has a different dtype
            trainable=bool(original.requires_grad),
        )


def _padded(handle: Any, num_ranks: int) -> int:
    """The elements of the gathered flat parameter, or of the all-reduced one if it is unsharded."""
    whole: int = handle.flat_param._unpadded_unsharded_size.numel()
    return -(-whole // num_ranks) * num_ranks


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return FullyShardedModules(units)
