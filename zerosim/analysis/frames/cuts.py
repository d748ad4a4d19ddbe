"""Divides the parameters of a program into units: computed, gathered and owned together.

A unit is the coarsest division that respects a system's bundles and buckets, the modules with
recorded computations and the owners of parameters. Every event of any of them therefore concerns
whole units, for every division by a system.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from zerosim.analysis.frames.layout import FROZEN, Calls, Division
from zerosim.base.errors import ZerosimError
from zerosim.schema.manifest import BucketLayout, Segment, UnitLayout
from zerosim.schema.strategies import Bundle, Parameter, Strategy
from zerosim.systems.registry import Axis, axis_of
from zerosim.theory.programs import element_bytes_of
from zerosim.theory.programs.options import parameters_of, text_map

ROOT = "root"
"""The name of FSDP's bundle of all parameters outside of the others."""
OPTIMIZER = "optimizer"
"""The name of a program's optimizer step, which updates all units."""


Key = tuple[str, str, int, str, bool]
"""A unit's module, bundle, owner and sort, and whether it is trained."""
CUT, WHOLE, SUMMED_LATE, WHOLE_GRADIENT = "cut", "whole", "whole, summed late", "whole gradient"
"""Sorts of parameters if ranks compute layers together."""


class NotShown(ZerosimError):
    """The contents of a program's ranks cannot be shown; the message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramUnits:
    """The units of a program, from its strategies.

    Attributes:
        units: in the order of forward.
        buckets: units that are reduced together.
        computed, gathered: as in `ShardLayout`.
        dtype: dtype of the parameters, by PyTorch's name; element_bytes: bytes of an element.
        begins_with_states: whether the optimizer has its states before the first update.
    """

    units: tuple[UnitLayout, ...]
    buckets: tuple[BucketLayout, ...]
    division: Division
    computed: Mapping[str, tuple[str, ...]]
    gathered: Mapping[str, Calls]
    dtype: str
    element_bytes: int
    begins_with_states: bool = False


@dataclass(slots=True)
class ParameterInUnit:
    """A parameter, and all properties that determine its unit.

    Attributes:
        bundle: the bundle with which it is gathered; owner: the rank of its states, or None.
        is_part: whether it is part of a parameter with several owners.
        sort: its part on each rank that computes its layer, if several ranks compute it together.
    """

    parameter: Parameter
    module: str
    bundle: str = ""
    owner: int | None = None
    is_part: bool = False
    sort: str = ""

    @property
    def key(self) -> Key:
        """The key that it shares with all others of its unit."""
        owner = -1 if self.owner is None else self.owner
        return self.module, self.bundle, owner, self.sort, self.parameter.trainable


def along(held: Mapping[str, Strategy], axis: Axis) -> list[Strategy]:
    """The strategies of a rank that divide training along an axis."""
    return [one for name, one in held.items() if axis_of(name) is axis]


@dataclass(slots=True)
class Cutting:
    """A program while it is divided into units.

    Attributes:
        held: strategies by rank.
        unit_of: by parameter, after the division; sorts: by unit.
    """

    held: Mapping[int, Mapping[str, Strategy]]
    num_ranks: int
    computations: Sequence[str]
    unit_of: dict[str, str] = field(default_factory=dict)
    sorts: dict[str, str] = field(default_factory=dict)

    @property
    def systems(self) -> Mapping[str, Strategy]:
        """The strategies of the lowest rank, which equal those of all others."""
        return self.held[min(self.held)]

    def cut(self, parameters: Iterable[Parameter]) -> list[ParameterInUnit]:
        """Each parameter with the innermost computed module that contains it."""
        return [ParameterInUnit(one, innermost(one.name, self.computations)) for one in parameters]

    def units(
        self, cuts: Sequence[ParameterInUnit], padded: Mapping[str, int]
    ) -> tuple[UnitLayout, ...]:
        """The units, in order of computation.

        Args:
            padded: by parameter, the number of its elements that all ranks keep together.
        """
        groups: dict[Key, list[ParameterInUnit]] = defaultdict(list)
        for one in cuts:
            groups[one.key].append(one)
        names = _names(groups)
        place = {name: number for number, name in enumerate(self.computations)}
        classes = {k: v for s in self.systems.values() for k, v in text_map(s, "classes").items()}
        found = []
        for key in sorted(groups, key=lambda key: place.get(key[0], len(place))):
            parameters = [one.parameter for one in groups[key]]
            self.unit_of.update({one.name: names[key] for one in parameters})
            self.sorts[names[key]] = key[3]
            found.append(
                UnitLayout(
                    name=names[key],
                    elements=sum(one.elements for one in parameters),
                    padded_elements=sum(padded.get(one.name, one.elements) for one in parameters),
                    trainable=key[-1],
                    module=classes.get(key[0], ""),
                )
            )
        return tuple(found)

    def bucket(self, name: str, parameters: Iterable[str]) -> BucketLayout:
        """The contents of a bucket, unit by unit."""
        units = dict.fromkeys(self.unit_of[one] for one in parameters if one in self.unit_of)
        return BucketLayout(
            name=name, segments=tuple(Segment(unit=unit, start=0, stop=1) for unit in units)
        )

    def program(
        self,
        units: tuple[UnitLayout, ...],
        buckets: Iterable[BucketLayout],
        division: Division,
        gathered: Mapping[str, Calls] | None = None,
    ) -> ProgramUnits:
        """The whole division."""
        modules = {name: innermost(name, self.computations) for name in self.unit_of}
        computed = {
            name: tuple(
                dict.fromkeys(
                    self.unit_of[parameter]
                    for parameter, module in modules.items()
                    if _is_in(module, name)
                )
            )
            for name in self.computations
        }
        dtype = _dtype(self.systems.values())
        return ProgramUnits(
            units=units,
            buckets=tuple(buckets),
            division=division,
            computed=computed | {OPTIMIZER: tuple(unit.name for unit in units)},
            gathered=gathered or {},
            dtype=dtype,
            element_bytes=element_bytes_of(dtype),
        )


def _is_in(name: str, module: str) -> bool:
    return name == module or name.startswith(f"{module}.")


def innermost(name: str, modules: Iterable[str]) -> str:
    """The longest of some modules' names that contains a parameter; "" for none."""
    return max((one for one in modules if _is_in(name, one)), key=len, default="")


def _names(
    groups: Mapping[Key, Sequence[ParameterInUnit]],
) -> dict[Key, str]:
    """The names of units: their module, if it is one unit; else their common properties."""
    num_of_module = Counter((module, trains) for module, *_, trains in groups)
    num_of_sort = Counter((module, sort, trains) for module, _, _, sort, trains in groups)
    found = {}
    for key, cuts in groups.items():
        module, _, owner, sort, trains = key
        names = [one.parameter.name for one in cuts]
        parts = zip(*(name.split(".") for name in names), strict=False)
        common = ".".join(one[0] for one in takewhile(lambda one: len({*one}) == 1, parts))
        is_one = num_of_module[module, trains] == 1 and module
        name = module if is_one else common or ROOT
        if not is_one and any(one.is_part for one in cuts):
            name = f"{module or ROOT} (rank {owner})"
        elif not is_one and sort and module and num_of_sort[module, sort, trains] == 1:
            name = module if sort == CUT else f"{module} ({sort})"
        found[key] = name if trains or not is_one else name + FROZEN
    seen = Counter(found.values())
    again = Counter[str]()
    for key, name in found.items():  # units that have no name of their own are numbered
        again[name] += 1
        if seen[name] > 1:
            found[key] = f"{name} ({again[name]})"
    return found


def _dtype(strategies: Iterable[Strategy]) -> str:
    """The dtype of all parameters."""
    dtypes = {one.dtype for strategy in strategies for one in parameters_of(strategy)}
    if len(dtypes) != 1:
        raise NotShown(f"parameters are kept in several dtypes: {', '.join(sorted(dtypes))}")
    return dtypes.pop()


def in_turn(units: Sequence[str]) -> Calls:
    """One call per parameter: the last call of a unit's parameters completes the unit."""
    last = {unit: place for place, unit in enumerate(units)}
    return tuple((unit,) if last[unit] == place else () for place, unit in enumerate(units))


def parameters_in(bundles: Iterable[Bundle]) -> list[Parameter]:
    """The parameters of some bundles, each once."""
    found = {one.name: one for bundle in bundles for one in bundle.parameters}
    return list(found.values())
