"""Which systems there are. Whatever wants to know something of one asks here, by its name.

A system's parts are modules of its package, loaded when they are asked for, so that what reads a
trace never loads what observes a program, and the other way round:

    observe   `observer(units)`: the `Observer` that finds the system in a program    (torch)
    plan      `plan(asked)`: what it makes a rank call in a step, its law and causes  (no torch)
    states    `keeps(asked)`: what a rank keeps of its model states                   (no torch)
    frames    `read(cutting)`: which rank holds which shard when                      (no torch)
    dry       `as_with_memory()`: a context for dry runs, whose tensors have no memory  (torch)

Other packages bring systems as entry points of the group `zerosim.systems` (docs/systems.md).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType

from zerosim.base.errors import EnvironmentFault
from zerosim.schema.memory import Role

GROUP = "zerosim.systems"
"""Of entry points."""
_OWN = (
    *("ddp", "fsdp2", "fsdp1", "zero_redundancy", "deepspeed", "tensor_parallel"),
    "pipeline_parallel",
)
"""In the order in which a program is searched for them: what wraps before what is wrapped."""


class Axis(StrEnum):
    """Along what a system divides a training."""

    DATA = "data"
    """The batch, and perhaps what replicas keep alike."""
    OPTIMIZER = "optimizer"
    """The optimizer's states, beside a system that divides the batch."""
    TENSOR = "tensor"
    """Single parameters, and the computations with them."""
    PIPELINE = "pipeline"
    """The layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to divide a training among ranks.

    Attributes:
        name: as rows `Strategy` say it.
        package: that has its parts.
        replicates: roles of what each rank keeps whole, and all keep alike.
        joins: the system whose plan it becomes a part of.
        divides: roles that it takes from what that one replicates.
        has_whole_model: its strategy lists every parameter of the model.
        ends_with_its_model: it is no longer in force once the model is gone.
        remembers: what it calls in a step depends on earlier steps.
    """

    name: str
    package: str
    axis: Axis
    replicates: frozenset[Role] = frozenset()
    joins: str = ""
    divides: frozenset[Role] = frozenset()
    has_whole_model: bool = False
    ends_with_its_model: bool = False
    remembers: bool = False

    def part(self, name: str) -> ModuleType | None:
        """One of its modules; None if it has none of this name."""
        return _part(self.package, name)


@cache
def _part(package: str, name: str) -> ModuleType | None:
    module = f"{package}.{name}"
    return None if find_spec(module) is None else import_module(module)


@cache
def systems() -> dict[str, System]:
    """All that there are, by name: zerosim's own, then those of other packages.

    Raises:
        EnvironmentFault: an entry point brings no system, or one whose name is taken.
    """
    own = (import_module(f"{__package__}.{name}").SYSTEM for name in _OWN)
    found: dict[str, System] = {one.name: one for one in own}
    for point in entry_points(group=GROUP):
        system = point.load()
        if not isinstance(system, System):
            raise EnvironmentFault(
                f"entry point {point.value} of {GROUP} is {type(system).__name__}: expected a "
                f"zerosim.systems.registry.System; uninstall its package, or mend it"
            )
        if system.name in found:
            raise EnvironmentFault(
                f"entry point {point.value} of {GROUP} brings {system.name!r}, and "
                f"{found[system.name].package} brings that already: uninstall one of them"
            )
        found[system.name] = system
    return found


def find(name: str) -> System | None:
    """A system by its name; None for what no installed package knows, and for hand-written."""
    return systems().get(name)


def axis_of(name: str) -> Axis | None:
    """Along what a system divides a training; None if it is not known."""
    found = find(name)
    return None if found is None else found.axis


def reader_of(names: Collection[str], part: str) -> ModuleType | None:
    """The part of one of these systems that can say something of all of them together.

    Such a part names in `BESIDE` the sets of other systems beside which it knows itself.
    """
    for name in names:
        system = find(name)
        module = None if system is None else system.part(part)
        if module is not None and frozenset(names) - {name} in module.BESIDE:
            return module
    return None
