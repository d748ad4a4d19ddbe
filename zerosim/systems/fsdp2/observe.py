"""The state of `fully_shard` (FSDP2, and HSDP on a mesh of two dimensions).

The newer `replicate` implements data parallelism with the same code.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

from torch import nn

from zerosim.schema.events import Purpose
from zerosim.schema.memory import NOT_REDUCED_YET, Role
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.fsdp2 import NAME
from zerosim.systems.fsdp2.groups import (
    GroupUse,
    bundle_of,
    divides_anything,
    groups_of,
    is_trainable,
    mesh_ranks,
    num_forwards,
    reached_modules,
    switches_of,
    written_as,
)
from zerosim.trace.autolabel.observer import (
    GivenGradients,
    Observer,
    Shard,
    Written,
    named_parameters,
    options_of,
    ranks_in_use,
    undivided,
)
from zerosim.trace.autolabel.optimizers import Optimizers
from zerosim.trace.autolabel.rules import Rule, find_frame
from zerosim.trace.autolabel.units import (
    Units,
    class_name,
    clean,
    qualified,
    unique,
    unwrapped,
)
from zerosim.trace.looking import Content

_FILE = "/fsdp/_fully_shard/_fsdp_param_group.py"
_ASKED = "/fsdp/_fully_shard/_fully_shard.py"
_MODULE = "torch.distributed.fsdp._fully_shard._fully_shard"


class FullyShard(Observer):
    """Every model with modules that were passed to `fully_shard`.

    Attributes:
        is_prepared: whether the program has gathered parameters itself for the forward of this
            micro-step.
    """

    def __init__(self, units: Units) -> None:
        self.is_prepared = False
        self._units = units
        self._taken: dict[str, int] = {}
        self._models: weakref.WeakKeyDictionary[nn.Module, _GroupedModel] = (
            weakref.WeakKeyDictionary()
        )
        self._names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._whole: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._num_forwards: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._before: dict[Any, Written] = {}
        self._use = self._settled = GroupUse()
        self.rules = (
            Rule(_FILE, "FSDPParamGroup.unshard", Purpose.GATHER_PARAMETERS, self._unit),
            Rule(_FILE, "FSDPParamGroup.post_backward", Purpose.REDUCE_GRADIENTS, self._unit),
        )

    def meet(self, thing: Any) -> None:
        """Find the wrapped modules in a model."""
        kind = getattr(sys.modules.get(_MODULE), "FSDPModule", None)
        if kind is None or not isinstance(thing, nn.Module):
            return
        label = self._units.label(thing)
        groups: dict[Any, str] = {}
        for name, module in thing.named_modules():
            if isinstance(module, kind):
                for number, group in enumerate(groups_of(module)):
                    unit = clean(name) or "root"
                    groups.setdefault(group, f"{unit} ({number})" if number else unit)
        if not groups or any(group in self._names for group in groups):
            return
        model = _GroupedModel(
            name=unique(self._taken, class_name(unwrapped(thing))),
            label=label,
            groups=[weakref.ref(group) for group in groups],
        )
        self._models[thing] = model
        for group, unit in groups.items():
            self._names[group] = qualified(label, unit)

    def micro_step_begins(self) -> None:
        """Determine which groups all models have kept gathered so far."""
        self.is_prepared = False
        self._use = GroupUse()
        self._num_forwards.clear()
        for model in list(self._models.values()):
            self._see(model)

    def forward_begins(self, root: nn.Module, *, is_first: bool) -> None:
        """Determine which groups the model has kept gathered since an earlier forward."""
        model = self._models.get(root) if is_first else None
        if model is not None:
            if not self.is_prepared:
                self._see(model)
            for group in model.alive():
                self._num_forwards[group] = num_forwards(group)

    def backward_begins(self) -> None:
        """Determine which groups forward has used, and the existing gradients."""
        self._look_at_forward()
        self._before = {
            one: written_as(one)
            for model in list(self._models.values())
            for group in model.alive()
            for one in group.fsdp_params
        }

    def _look_at_forward(self) -> None:
        if not self._use.is_seen and not self._units.is_piped:
            self._use.is_seen = True
            counts = self._num_forwards.items()
            self._use.unused.update(one for one, count in counts if num_forwards(one) <= count)

    def backward_over(self, gone_back: Callable[[nn.Module], bool]) -> None:
        """Determine which parameters of reducing groups got no gradient."""
        for thing, model in list(self._models.items()):
            if gone_back(thing):
                model.see_gradients(self._units.optimizers)
            groups = [one for one in model.alive() if one.reduce_grads and one.all_reduce_grads]
            trained = [(g, one) for g in groups for one in g.fsdp_params if is_trainable(one)]
            none = [(g, one) for g, one in trained if self._before.get(one) == written_as(one)]
            if gone_back(thing) and len(none) < len(trained):  # else an optimizer consumed each
                for group in groups:
                    self._use.without[group] = [one for of, one in none if of is group]
        self._before = {}

    def update_begins(self) -> None:
        """Record which gradients the program has left to the optimizer."""
        for model in list(self._models.values()):
            model.see_gradients(self._units.optimizers)

    def settle(self) -> None:
        """A backward or a micro-step ends."""
        self._look_at_forward()
        self._settled = self._use

    def is_asked_ahead(self) -> bool:
        """Whether the program itself calls `unshard()` of a module."""
        return _MODULE in sys.modules and find_frame("unshard", _ASKED) is not None

    def forward_is_prepared(self) -> None:
        """The program calls `unshard()` for the forward of this micro-step."""
        self.is_prepared = True

    def shards(self, module: nn.Module) -> Iterator[Shard]:
        """The shards of a module's partitioned parameters."""
        for group in groups_of(module):
            for one in group.fsdp_params:
                yield Shard(one.sharded_param, getattr(one, "_unsharded_param", None))

    def kept(self, *, wholly: bool) -> Iterator[Content]:
        """Whole gradients of backwards that did not reduce; with HSDP, sums within a replica."""
        for model in list(self._models.values()) if wholly else ():
            for group in model.alive():
                kept = [
                    getattr(one, "unsharded_accumulated_grad", None) for one in group.fsdp_params
                ]
                kept.append(getattr(group, "_partial_reduce_output", None))
                for one in kept:
                    if one is not None:
                        yield Content(Role.GRADIENTS, NOT_REDUCED_YET, one)

    def gathers_within(self, module: nn.Module, unit: str) -> bool:
        """Whether a module gathers this unit's parameters, if needed, within its call."""
        return any(self._names.get(group) == unit for group in groups_of(module))

    def _see(self, model: _GroupedModel) -> None:
        for group in model.alive():
            self._whole[group] = bool(group.is_unsharded)

    def settings(self) -> Hashable:
        """Read the options of each group."""
        return tuple(
            (
                self._units.passes(thing),
                self._units.returns(thing),
                model.given.version,
                tuple(self._settings(group) for group in groups),
            )
            for thing, model, groups in self._ready()
        )

    def describe(self) -> Iterator[Strategy]:
        """The current strategy of each model."""
        for thing, model, groups in self._ready():
            names = named_parameters(thing)
            reached, fed = reached_modules(thing)
            ranks = {rank for group in groups for rank in mesh_ranks(group)}
            passes = self._units.passes(thing)
            bundles = tuple(
                bundle_of(
                    group,
                    self._name(group),
                    names,
                    is_whole=self._whole.get(group, False),
                    is_reached=any(module in reached for module in group.modules),
                    is_fed=any(module in fed for module in group.modules),
                    use=self._settled,
                )
                for group in groups
            )
            own = {one.name for bundle in bundles for one in bundle.parameters}
            yield Strategy(
                system=NAME,
                name=model.name,
                ranks=ranks_in_use(ranks, passes),
                bundles=bundles,
                options={
                    "label": model.label,
                    "replicates": not any(divides_anything(group) for group in groups),
                    **options_of(passes),
                    "returns": self._units.returns(thing),
                    **undivided(thing, own, self._units.optimizers),
                    **model.given.options(partial(_place_name, bundles)),
                },
            )

    def _ready(self) -> Iterator[tuple[nn.Module, _GroupedModel, list[Any]]]:
        """Models with a known root: the root decides in its first forward what stays gathered."""
        for thing, model in list(self._models.items()):
            groups = model.alive()
            if groups and all(hasattr(group.comm_ctx, "device_handle") for group in groups):
                yield thing, model, groups

    def _settings(self, group: Any) -> Hashable:
        trainable = tuple([one.sharded_param.requires_grad for one in group.fsdp_params])
        without = tuple(map(id, self._settled.without.get(group, ())))
        is_unused = group in self._settled.unused
        return (switches_of(group), self._whole.get(group, False), trainable, is_unused, without)

    def _unit(self, frame: FrameType) -> str:
        """The wrapped module of the parameter group of this frame's method."""
        return self._name(frame.f_locals.get("self"))

    def _name(self, group: Any) -> str:
        fqn = clean(getattr(group, "_module_fqn", None) or "") or "root"
        return self._names.get(group, fqn)


@dataclass(frozen=True, slots=True)
class _GroupedModel:
    """A model and its parameter groups, in the order of its modules."""

    name: str
    label: str
    groups: list[weakref.ref[Any]]
    given: GivenGradients = field(default_factory=GivenGradients)

    def alive(self) -> list[Any]:
        """The groups that still exist."""
        return [group for reference in self.groups if (group := reference()) is not None]

    def see_gradients(self, optimizers: Optimizers) -> None:
        """Record which parameters have a gradient, and which states."""
        trained = [
            ((place, number), one.sharded_param)
            for place, group in enumerate(self.alive())
            for number, one in enumerate(group.fsdp_params)
            if is_trainable(one)
        ]
        self.given.see(
            ((place, one.grad) for place, one in trained),
            ((place, optimizers.states(one)) for place, one in trained),
            optimizers.counts(),
        )


def _place_name(bundles: Sequence[Bundle], place: tuple[int, int]) -> str:
    """The parameter at a place among the bundles."""
    return bundles[place[0]].parameters[place[1]].name


def observer(units: Units) -> Observer:
    """The observer of this system."""
    return FullyShard(units)
