"""DeepSpeed: stages 1 and 2 divide flat groups of parameters, stage 3 each parameter.

`states`, in this folder, defines the memory of each stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zerosim.analysis.frames.cuts import (
    ROOT,
    Cutting,
    NotShown,
    ParameterInUnit,
    ProgramUnits,
    in_turn,
    innermost,
    parameters_in,
)
from zerosim.analysis.frames.layout import Calls, Division
from zerosim.analysis.frames.reduced import EVERYTHING
from zerosim.analysis.frames.seats import require_seats_of_all
from zerosim.schema.strategies import Bundle, Parameter
from zerosim.systems.deepspeed import NAME
from zerosim.theory.programs.options import number, parameters_of, text, texts

BESIDE = (frozenset[str](),)
_MOST_AT_ONCE = 500_000_000
"""Elements that stage 0 reduces in one call: `MEMORY_OPT_ALLREDUCE_SIZE` of DeepSpeed's engine."""


def read(made: Cutting) -> ProgramUnits:
    """Stages 1 and 2 divide flat groups, stage 3 each parameter."""
    require_seats_of_all(made)
    strategy = made.systems[NAME]
    stage = number(strategy, "stage")
    if stage == 0:
        return _of_stage_0(made)
    offloads = ("offload_optimizer", "offload_param")
    if any(strategy.options.get(name, "none") != "none" for name in offloads):
        raise NotShown("DeepSpeed's states off the device are not shown")
    trained = sum(one.elements for one in parameters_of(strategy) if one.trainable)
    if trained > number(strategy, "reduce_bucket_size"):
        raise NotShown("the trace does not assign gradients to DeepSpeed's buckets")
    if stage == 3:
        return _of_parameters(made)
    if text(strategy, "optimizer") == "BF16_Optimizer":
        raise NotShown(f"the states of {text(strategy, 'optimizer')} are not shown")
    cuts: list[ParameterInUnit] = []
    padded: dict[str, int] = {}
    parts_of: dict[str, list[str]] = {}
    for bundle in strategy.bundles:
        parts = list(_parts(bundle, made.num_ranks))
        own = [
            ParameterInUnit(one, innermost(one.name, made.computations), owner=at, is_part=True)
            for one, at in parts
        ]
        zeros = number(bundle, "padded_elements") - sum(one.elements for one, _ in parts)
        padded[parts[-1][0].name] = parts[-1][0].elements + zeros
        parts_of[bundle.name] = [one.name for one, _ in parts]
        cuts += own
    units = made.units(cuts, padded)
    division = Division(
        parameters=False,
        gradients=True,
        states=True,
        owners={
            made.unit_of[one.parameter.name]: one.owner for one in cuts if one.owner is not None
        },
        calls_within=True,
        frees_gradients=True,
    )
    bucket = made.bucket("bucket 0", (one.parameter.name for one in cuts))
    gathered: dict[str, Calls] = {
        name: (tuple(dict.fromkeys(made.unit_of[part] for part in parts)),)
        for name, parts in parts_of.items()
    }
    found = made.program(units, [bucket], division, gathered)
    return replace(found, begins_with_states=True)


def _parts(bundle: Bundle, num_ranks: int) -> Iterator[tuple[Parameter, int]]:
    """The parameters of a flat group, split between ranks, with their owners."""
    size, begin = number(bundle, "padded_elements") // num_ranks, 0
    for one in bundle.parameters:
        end = begin + one.elements
        for owner in range(begin // size, -(-end // size)):
            first, last = max(begin, owner * size), min(end, (owner + 1) * size)
            name = f"{one.name}[{first - begin}:{last - begin}]"
            yield replace(one, name=name, shape=(last - first,)), owner
        begin = end


def _of_parameters(made: Cutting) -> ProgramUnits:
    """Stage 3: parts of each parameter; small ones stay gathered, others until the next is
    gathered.
    """
    strategy = made.systems[NAME]
    persistent = {name for bundle in strategy.bundles for name in texts(bundle, "persistent")}
    parameters = [one for one in parameters_in(strategy.bundles) if one.trainable]
    all_persist = persistent >= {one.name for one in parameters}
    keeps = any(number(strategy, key, 1) for key in ("prefetch_bucket_size", "max_reuse_distance"))
    if text(strategy, "trace") != "complete" or (keeps and not all_persist):
        raise NotShown("parameters that DeepSpeed's stage 3 prefetches and keeps are not shown")
    if number(strategy, "partition_count") != made.num_ranks:
        raise NotShown(
            "the trace does not say that DeepSpeed's stage 3 partitions parameters across all ranks"
        )
    padded = {one.name: -(-one.elements // made.num_ranks) * made.num_ranks for one in parameters}
    bundle_of = {one.name: bundle.name for bundle in strategy.bundles for one in bundle.parameters}
    cuts = made.cut(parameters)
    for cut in () if all_persist else cuts:
        cut.bundle = bundle_of[cut.parameter.name]
        cut.sort = "persistent" if cut.parameter.name in persistent else ""
    units = made.units(cuts, padded)
    modules = {made.unit_of[name]: bundle for name, bundle in bundle_of.items()}
    division = Division(
        parameters=True,
        gradients=True,
        states=True,
        modules={unit: "" if bundle == ROOT else bundle for unit, bundle in modules.items()},
        calls_within=True,
        frees_gradients=True,
        persists=frozenset(made.unit_of[name] for name in persistent if name in made.unit_of),
        frees_for_next=True,
    )
    bucket = made.bucket("bucket 0", made.unit_of)
    gathered: dict[str, Calls] = {
        bundle.name: (
            tuple(
                dict.fromkeys(
                    made.unit_of[one.name]
                    for one in bundle.parameters
                    if one.name in made.unit_of and one.name not in persistent
                )
            ),
        )
        for bundle in strategy.bundles
    }
    together = [made.unit_of[one.name] for one in parameters if one.name in persistent]
    gathered["persistent"] = in_turn(together)
    return replace(made.program(units, [bucket], division, gathered), begins_with_states=True)


def _of_stage_0(made: Cutting) -> ProgramUnits:
    """Stage 0: all is whole, and all gradients are reduced in one call."""
    strategy = made.systems[NAME]
    parameters = parameters_in(strategy.bundles)
    trained = [one.name for one in parameters if one.trainable]
    if text(strategy, "optimizer").endswith("_Optimizer"):
        raise NotShown(f"the states of {text(strategy, 'optimizer')} are not shown")
    if sum(one.elements for one in parameters if one.trainable) > _MOST_AT_ONCE:
        raise NotShown("the trace does not assign gradients to DeepSpeed's calls")
    units = made.units(made.cut(parameters), {})
    return made.program(units, [made.bucket("", trained)], EVERYTHING)
