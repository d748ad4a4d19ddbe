"""The shards of a pipeline: each rank has the layers of its stage, which may be sharded further.

Names of modules are those within a stage, so two stages have equal names. Here, and in the steps,
the name of a unit includes its stage: "stage 1.blocks.0". For a rank with several stages (Narayanan
et al., arXiv 2104.04473, section 2.2) the tracer distinguishes their modules by a label in front of
the name, and the strategy maps labels to stages. Source: Y. Huang et al., "GPipe" (arXiv
1811.06965), section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from zerosim.analysis.frames.cuts import OPTIMIZER, Cutting, NotShown, ProgramUnits
from zerosim.analysis.frames.layout import Calls, ShardDuties
from zerosim.analysis.frames.reduced import each_alone
from zerosim.schema.events import Event, Purpose
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.strategies import Strategy
from zerosim.systems.registry import Axis, axis_of
from zerosim.theory.programs.options import parameters_of, text, text_map

Held = Mapping[int, Mapping[str, Strategy]]
Reader = Callable[[Held, int, Sequence[str]], ProgramUnits]

Stages = Mapping[str, str]
"""The stages of a rank by the label of their modules; a single one has the label ""."""

LABELLED = ": "
"""The separator between a label and a module's name."""
_BETWEEN = (Purpose.SEND_ACTIVATIONS, Purpose.SEND_GRADIENTS)


def stages_of(strategies: Iterable[Strategy]) -> Stages:
    """The stages of a rank; empty if it has none, or several that cannot be distinguished."""
    bundles = {
        bundle.name: bundle
        for one in strategies
        if axis_of(one.system) is Axis.PIPELINE
        for bundle in one.bundles
    }
    if len(bundles) == 1:
        return dict(zip([""], bundles, strict=True))
    labels = {text(one, "label"): name for name, one in bundles.items() if "label" in one.options}
    return labels if len(labels) == len(bundles) else {}


def within(stages: Stages, event: Event) -> str:
    """The name of an event's unit; messages between stages name it themselves."""
    if not event.unit or event.unit == OPTIMIZER or event.purpose in _BETWEEN or not stages:
        return event.unit
    label, separator, name = event.unit.partition(LABELLED) if len(stages) > 1 else ("", "", "")
    if separator and label in stages:
        return f"{stages[label]}.{name}"
    return f"{stages['']}.{event.unit}" if "" in stages else event.unit


def require_stages(held: Held) -> dict[int, tuple[str, ...]]:
    """By rank, its stages.

    Raises:
        NotShown: a rank has several, and the computing one is unknown.
    """
    found = {rank: tuple(stages_of(of_rank.values()).values()) for rank, of_rank in held.items()}
    for rank, stages in found.items():
        if not stages:
            raise NotShown(f"the trace does not record which of its stages rank {rank} computes")
    return found


def read_stages(
    held: Held, stages: Mapping[int, Collection[str]], computations: Sequence[str], read: Reader
) -> ProgramUnits:
    """A pipeline: each stage as its own system shards it, or whole on its rank."""
    programs: dict[str, ProgramUnits] = {}
    for stage in sorted({stage for own in stages.values() for stage in own}, key=_number):
        own = {rank: held[rank] for rank in held if stage in stages[rank]}
        prefix = f"{stage}."
        inside = [one.removeprefix(prefix) for one in computations if one.startswith(prefix)]
        rest = {rank: _beside(of_rank) for rank, of_rank in own.items()}
        is_divided = any(rest.values())
        found = read(rest, len(own), inside) if is_divided else _whole(stage, own, inside)
        programs[stage] = _named(stage, _with_parts(found, tuple(own)))
    return _joined(programs, tuple(held))


def _number(stage: str) -> tuple[int, str]:
    """The sort key of stages in the order of the model: stage 10 after stage 9."""
    return len(stage), stage


def _beside(held: Mapping[str, Strategy]) -> Mapping[str, Strategy]:
    return {system: one for system, one in held.items() if axis_of(system) is not Axis.PIPELINE}


def _part_of(pipeline: Strategy, stage: str) -> Strategy:
    """A pipeline's description of one stage, with the names of modules within it."""
    bundles = tuple(one for one in pipeline.bundles if one.name == stage)
    classes = text_map(pipeline, "classes")
    if len(pipeline.bundles) > 1:
        label = text(bundles[0], "label")
        split = {tuple(name.rpartition(LABELLED)[::2]): kind for name, kind in classes.items()}
        classes = {name: kind for (of_model, name), kind in split.items() if of_model == label}
    return replace(pipeline, bundles=bundles, options={**pipeline.options, "classes": classes})


def _whole(stage: str, held: Held, computations: Sequence[str]) -> ProgramUnits:
    """A stage that is not sharded."""
    own = {
        rank: {
            name: _part_of(one, stage)
            for name, one in of_rank.items()
            if axis_of(name) is Axis.PIPELINE
        }
        for rank, of_rank in held.items()
    }
    made = Cutting(own, len(held), computations)
    named = [
        replace(one, name=one.name.removeprefix(f"{stage}."))
        for pipeline in made.systems.values()
        for one in parameters_of(pipeline)
    ]
    units = made.units(made.cut(named), {})
    return made.program(units, (), each_alone(held, units))


def _with_parts(program: ProgramUnits, ranks: tuple[int, ...]) -> ProgramUnits:
    """A program with each rank's part of each unit."""
    division, count = program.division, len(ranks)
    if division.parts:
        return program
    everything = frozenset(range(count))
    mine = {rank: frozenset({place}) for place, rank in enumerate(ranks)}
    parts = {
        (rank, unit.name): ShardDuties(
            computes=everything,
            keeps=mine[rank] if division.parameters else everything,
            updates=mine[rank] if division.states else everything,
            makes=everything,
            among=frozenset(ranks),
        )
        for rank in ranks
        for unit in program.units
    }
    return replace(program, division=replace(division, num_shards=count, parts=parts))


def _named(stage: str, program: ProgramUnits) -> ProgramUnits:
    """A program whose unit names include their stage."""

    def all_of(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{stage}.{name}" for name in names)

    division = program.division
    return replace(
        program,
        units=tuple(replace(one, name=f"{stage}.{one.name}") for one in program.units),
        buckets=tuple(
            BucketLayout(
                name=f"{stage}.{bucket.name}",
                segments=tuple(replace(o, unit=f"{stage}.{o.unit}") for o in bucket.segments),
            )
            for bucket in program.buckets
        ),
        computed={
            name if name == OPTIMIZER else f"{stage}.{name}": all_of(units)
            for name, units in program.computed.items()
        },
        gathered={
            f"{stage}.{name}": tuple(all_of(units) for units in calls)
            for name, calls in program.gathered.items()
        },
        division=replace(
            division,
            stays=frozenset(all_of(division.stays)),
            frees_last=frozenset(all_of(division.frees_last)),
            # the root of a stage is not a computing module
            modules={
                f"{stage}.{unit}": module and f"{stage}.{module}"
                for unit, module in division.modules.items()
            },
            parts={(rank, f"{stage}.{unit}"): one for (rank, unit), one in division.parts.items()},
            summed_late=frozenset(all_of(division.summed_late)),
        ),
    )


def _joined(programs: Mapping[str, ProgramUnits], ranks: tuple[int, ...]) -> ProgramUnits:
    """The stages one after another; a rank has no part of the units of other stages.

    Raises:
        NotShown: stages are sharded in different ways.
    """
    every = list(programs.values())
    first = every[0]
    kinds = {
        (one.division.num_shards, one.division.parameters, one.dtype, one.division.owners == {})
        for one in every
    }
    if len(kinds) > 1:
        raise NotShown("the stages of the pipeline are not divided in the same way")
    units = tuple(unit for one in every for unit in one.units)
    nothing = {(rank, unit.name): ShardDuties() for rank in ranks for unit in units}
    computed: dict[str, tuple[str, ...]] = {}
    gathered: dict[str, Calls] = {}
    modules: dict[str, str] = {}
    parts = dict(nothing)
    for one in every:
        computed |= one.computed
        gathered |= one.gathered
        modules |= one.division.modules
        parts |= one.division.parts
    return replace(
        first,
        units=units,
        buckets=tuple(bucket for one in every for bucket in one.buckets),
        computed=computed | {OPTIMIZER: tuple(unit.name for unit in units)},
        gathered=gathered,
        division=replace(
            first.division,
            stays=frozenset().union(*(one.division.stays for one in every)),
            frees_last=frozenset().union(*(one.division.frees_last for one in every)),
            modules=modules,
            parts=parts,
            summed_late=frozenset().union(*(one.division.summed_late for one in every)),
        ),
    )
