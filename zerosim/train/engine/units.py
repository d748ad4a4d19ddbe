"""Units of communication: the parameters of a unit, and their positions in it.

A unit is a block of the model, flattened into one vector, padded so that N divides it, and viewed
as a matrix of N rows: row r is the shard of rank r. Parameters that need no gradient form a
separate unit beside their block's, because they are never reduced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from torch import nn

from zerosim.base.errors import ConfigError
from zerosim.schema.manifest import Slot, UnitLayout
from zerosim.trace.blocks import NEVER_CALLED, default_blocks
from zerosim.train.engine.local import local_part

ROOT = "root"
_FROZEN_SUFFIX = ".frozen"


@dataclass(frozen=True, slots=True)
class ParameterSlot:
    """The position of one parameter in its unit's flat vector.

    Attributes:
        shape, elements: those of the parameter, which PyTorch does not report while it is
            sharded; under tensor parallelism, those of this rank's shard.
    """

    name: str
    parameter: nn.Parameter
    offset: int
    shape: tuple[int, ...]
    elements: int


@dataclass(frozen=True, slots=True)
class Unit:
    """Parameters that communicate together.

    Attributes:
        module: the module whose forward needs them.
        columns: elements of one shard; the padded vector has N times as many.
    """

    name: str
    module: nn.Module
    trainable: bool
    slots: tuple[ParameterSlot, ...]
    elements: int
    columns: int

    def layout(self, num_ranks: int) -> UnitLayout:
        """The description of the unit for a manifest."""
        return UnitLayout(
            name=self.name,
            elements=self.elements,
            padded_elements=self.columns * num_ranks,
            trainable=self.trainable,
            module=type(self.module).__name__,
            slots=tuple(
                Slot(name=slot.name, shape=slot.shape, offset=slot.offset, elements=slot.elements)
                for slot in self.slots
            ),
        )


def partition(model: nn.Module, num_ranks: int, patterns: Sequence[str] = ()) -> list[Unit]:
    """Divide a model's parameters into units, in order of registration of their modules.

    A parameter belongs to the unit of its module. One in several units (tied weights), in none, or
    also in a module outside of all units belongs to "root", which is complete while the whole model
    computes. The root is the first unit, because backward completes its gradient last.

    Args:
        patterns: names of modules (with wildcards), each of which is a unit; by default each child
            of a container (ModuleList, ModuleDict, Sequential) and each direct child without a
            container inside.

    Raises:
        ConfigError: the model has no parameters, a pattern matches nothing, or one unit's module is
            inside another's.
    """
    blocks = list(_matching(model, patterns) if patterns else default_blocks(model))
    owners: dict[nn.Parameter, list[tuple[str, nn.Module]]] = {}
    names: dict[nn.Parameter, str] = {}
    for name, parameter in model.named_parameters():
        owners[parameter] = []
        names[parameter] = name
    for block in blocks:
        for parameter in block[1].parameters():
            owners[parameter].append(block)
    outside = {
        parameter
        for name, parameter in model.named_parameters(remove_duplicate=False)
        if not any(name.startswith(f"{block}.") for block, _ in blocks)
    }
    if not owners:
        raise ConfigError(f"{type(model).__name__} has no parameters: there is nothing to train")
    members: dict[str, tuple[nn.Module, list[nn.Parameter]]] = {
        name: (module, []) for name, module in [(ROOT, model), *blocks]
    }
    for parameter, holders in owners.items():
        name = ROOT if parameter in outside or len(holders) > 1 else holders[0][0]
        members[name][1].append(parameter)
    units = []
    for name, (module, parameters) in members.items():
        trainable = [p for p in parameters if p.requires_grad]
        frozen = [p for p in parameters if not p.requires_grad]
        for suffix, part in (("", trainable), (_FROZEN_SUFFIX, frozen)):
            if part:
                units.append(_unit(name + suffix, module, part, names, num_ranks))
    return units


def _unit(
    name: str,
    module: nn.Module,
    parameters: Sequence[nn.Parameter],
    names: dict[nn.Parameter, str],
    num_ranks: int,
) -> Unit:
    for parameter in parameters:
        if not parameter.is_floating_point():
            raise ConfigError(
                f"parameter {names[parameter]} has dtype {parameter.dtype}: expected floating point"
            )
    slots, offset = [], 0
    for parameter in parameters:
        elements = local_part(parameter).numel()
        shape = tuple(local_part(parameter).shape)
        slots.append(ParameterSlot(names[parameter], parameter, offset, shape, elements))
        offset += elements
    return Unit(
        name=name,
        module=module,
        trainable=parameters[0].requires_grad,
        slots=tuple(slots),
        elements=offset,
        columns=-(-offset // num_ranks),
    )


def _matching(model: nn.Module, patterns: Sequence[str]) -> Iterator[tuple[str, nn.Module]]:
    named = [(name, module) for name, module in model.named_modules() if name]
    for pattern in patterns:
        if not any(_fits(name, pattern) for name, _ in named):
            known = ", ".join(name for name, _ in model.named_children())
            raise ConfigError(
                f"no module matches the unit pattern {pattern!r}: expected a name such as {known}"
            )
    chosen = [
        (name, module)
        for name, module in named
        if any(_fits(name, pattern) for pattern in patterns)
    ]
    for name, module in chosen:
        if isinstance(module, NEVER_CALLED):
            raise ConfigError(
                f"unit {name} is a {type(module).__name__}, which has no forward of "
                f"its own: give {name}.* for its children"
            )
        for other, _ in chosen:
            if name.startswith(f"{other}."):
                raise ConfigError(
                    f"unit {name} is inside unit {other}: give patterns that do not overlap"
                )
    return iter(chosen)


def _fits(name: str, pattern: str) -> bool:
    """A wildcard matches one level of names."""
    return name.count(".") == pattern.count(".") and fnmatchcase(name, pattern)
