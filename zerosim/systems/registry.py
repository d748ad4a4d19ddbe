"""The systems, and access to their parts by name.

A system's parts are modules of its package, loaded on demand, so that readers of a trace never load
observers of a program, and vice versa:

    observe   `observer(units)`: the `Observer` that finds the system in a program    (torch)
    plan      `plan(asked)`: the calls of a rank in a step, its law and causes         (no torch)
    states    `keeps(asked)`: the model states of a rank                               (no torch)
    frames    `read(cutting)`: the shards of each rank over time                      (no torch)
    dry       `as_with_memory()`: a context for dry runs, with tensors without memory  (torch)

Other packages provide systems as entry points of the group `zerosim.systems` (docs/systems.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from types import ModuleType

from zerosim.base.errors import EnvironmentFault, TraceError, ZerosimError, first_line
from zerosim.schema.memory import Role
from zerosim.schema.strategies import Strategy

GROUP = "zerosim.systems"
"""The group of entry points."""
_OWN = (
    *("ddp", "fsdp2", "fsdp1", "zero_redundancy_optimizer", "deepspeed", "tensor_parallel"),
    "pipeline_parallel",
)
"""In the order of search in a program: wrappers before the modules that they wrap."""


class Axis(StrEnum):
    """The dimension along which a system partitions training."""

    DATA = "data"
    """The batch, and possibly replicated states."""
    OPTIMIZER = "optimizer"
    """Optimizer states, beside a system that divides the batch."""
    TENSOR = "tensor"
    """Single parameters, and the computations with them."""
    PIPELINE = "pipeline"
    """The layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """A way to partition training among ranks.

    Attributes:
        name: its name in records of `Strategy`.
        package: the package that contains its parts.
        replicates: roles of states that every rank keeps whole and equal.
        joins: the system whose plan it extends.
        divides: roles that it partitions, among those that the joined system replicates.
        has_whole_model: its strategy lists every parameter of the model.
        ends_with_its_model: whether it ends once the model is freed.
        remembers: whether its calls in a step depend on earlier steps.
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
        """One of its modules; None if it has no module of this name."""
        return _part(self.package, name)


@cache
def _part(package: str, name: str) -> ModuleType | None:
    module = f"{package}.{name}"
    return None if find_spec(module) is None else import_module(module)


@cache
def systems() -> dict[str, System]:
    """All systems by name: zerosim's own, then those of other packages.

    Raises:
        EnvironmentFault: an entry point has no system, or one with a name in use.
    """
    own = (import_module(f"{__package__}.{name}").SYSTEM for name in _OWN)
    found: dict[str, System] = {one.name: one for one in own}
    for point in entry_points(group=GROUP):
        system = point.load()
        if not isinstance(system, System):
            raise EnvironmentFault(
                f"entry point {point.value} of {GROUP} is {type(system).__name__}: expected a "
                f"zerosim.systems.registry.System; uninstall its package, or correct it"
            )
        if system.name in found:
            raise EnvironmentFault(
                f"entry point {point.value} of {GROUP} brings {system.name!r}, which "
                f"{found[system.name].package} already defines: uninstall one of them"
            )
        found[system.name] = system
    return found


def find(name: str) -> System | None:
    """A system by its name; None if no installed package has it, and for hand-written programs."""
    return systems().get(name)


def axis_of(name: str) -> Axis | None:
    """The dimension along which a system partitions training; None if unknown."""
    found = find(name)
    return None if found is None else found.axis


def reader_of(names: Collection[str], part: str) -> ModuleType | None:
    """The part, of one of these systems, that supports all of them together.

    Such a part lists in `BESIDE` the sets of other systems that it supports.
    """
    for name in names:
        system = find(name)
        module = None if system is None else system.part(part)
        if module is not None and frozenset(names) - {name} in module.BESIDE:
            return module
    return None


@contextmanager
def understood(strategies: Iterable[Strategy]) -> Iterator[None]:
    """A context for code that reads the options of a system's strategies.

    The options are plain values that only the system's own parts interpret, so contradictions are
    found there and not when the trace is loaded.

    Raises:
        TraceError: the options are invalid.
    """
    try:
        yield
    except ZerosimError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        names = " and ".join(f"{one.system} {one.name!r}" for one in strategies)
        raise TraceError(
            f"the trace's record of {names} contradicts itself ({first_line(error)}): expected "
            "rows `strategy` as `zerosim trace` writes them; record it again"
        ) from error
