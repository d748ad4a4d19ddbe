"""Who holds what where ranks share a batch out: DDP, its optimizer's owners, FSDP.

Source of what each system keeps: `zerosim.theory.programs.states`, and the sources named there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from zerosim.analysis.frames.cuts import (
    ROOT,
    WHOLE,
    Cut,
    Cutting,
    NotShown,
    Program,
    in_turn,
    parameters_in,
)
from zerosim.analysis.frames.layout import Calls, Division
from zerosim.analysis.frames.seats import divided, require_seats_of_all, seats_of, sorts_of
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.strategies import Bundle, Parameter, Strategy, System
from zerosim.theory.programs.options import (
    flag,
    name_lists,
    number,
    numbers,
    parameters_of,
    text,
)
from zerosim.theory.programs.tensor_parallel import local_parameters

EVERYTHING = Division(parameters=False, gradients=False, states=False, calls_within=True)
"""Of data parallelism that keeps all on each rank."""


def read_ddp(made: Cutting) -> Program:
    """DDP: all is whole, each bucket is all-reduced."""
    units = made.units(made.cut(parameters_of(made.systems[System.DDP])), {})
    division = divided(made, EVERYTHING, seats_of(made))
    return made.program(units, ddp_buckets(made), division)


def ddp_buckets(made: Cutting) -> Iterator[BucketLayout]:
    """What DDP reduces together.

    Raises:
        NotShown: that is decided as it goes, or what becomes of it is not known.
    """
    strategy = made.systems[System.DDP]
    if flag(strategy, "finds_unused", default=False):
        raise NotShown("only the loss decides which parameters have gradients")
    if text(strategy, "comm_hook"):
        hook = text(strategy, "comm_hook")
        raise NotShown(f"what DDP's communication hook {hook} makes of gradients is not known")
    buckets = name_lists(strategy, "bucket_parameters")
    nameless = [names for names in buckets if "" in names]
    if len(nameless) > 1:
        raise NotShown("parameters that DDP reduces have no names in the trace")
    named = {name for names in buckets for name in names}
    for names in nameless:  # what tensor parallel has divided: it is in no other bucket
        names.extend(name for name in made.unit_of if name not in named)
    for place, names in enumerate(buckets):
        yield made.bucket(f"bucket {place}", names)


def read_owners(made: Cutting) -> Program:
    """ZeroRedundancyOptimizer: the states of each parameter are with its owner, who sends it on."""
    require_seats_of_all(made)
    strategy = made.systems[System.ZERO_REDUNDANCY]
    owners = {
        one.name: number(bundle, "owner")
        for bundle in strategy.bundles
        for one in bundle.parameters
    }
    cuts = made.cut(parameters_of(made.systems[System.DDP]))
    for one in cuts:
        one.owner = owners.get(one.parameter.name)
    units = made.units(cuts, {})
    if flag(strategy, "bucket_view", default=False) or flag(
        strategy, "overlap_with_ddp", default=False
    ):
        raise NotShown("which parameters ZeroRedundancyOptimizer sends in one call is not told")
    every = parameters_in(strategy.bundles)
    sent = [made.unit_of[one.name] for one in every if one.name in made.unit_of]
    division = replace(
        EVERYTHING,
        states=True,
        owners={made.unit_of[name]: rank for name, rank in owners.items() if name in made.unit_of},
    )
    return made.program(units, ddp_buckets(made), division, {"": in_turn(sent)})


def read_fsdp2(made: Cutting) -> Program:
    """FSDP2: each rank keeps the same rows of every parameter; bundles are gathered together.

    Of what tensor parallel has divided before, rows of its part.
    """
    strategy = made.systems[System.FSDP2]
    if strategy.options.get("undivided") or strategy.options.get("undivided_frozen"):
        raise NotShown("parameters that FSDP2 leaves whole have no names in the trace")
    seat = next(iter(seats_of(made).values()))
    tensor = [one for system, one in made.systems.items() if system is System.TENSOR_PARALLEL]
    sorts = sorts_of(tensor[0]) if tensor else {}
    other = WHOLE if tensor else ""
    cuts, padded = made.cut(parameters_in(strategy.bundles)), {}
    for bundle in strategy.bundles:
        dims = numbers(bundle, "shard_dims")
        if len(dims) != len(bundle.parameters):
            raise NotShown(f"along which dim the parameters of {bundle.name} are cut is not told")
        local = local_parameters(bundle.parameters, tensor)
        for one, part, dim in zip(bundle.parameters, local, dims, strict=True):
            count = len(seat.columns) if part != one else 1
            padded[one.name] = count * _padded(part, dim, seat.num_rows)
    for cut in cuts:
        cut.sort = sorts.get(cut.parameter.name, other)
    return _of_shards(made, strategy, cuts, padded)


def read_fsdp1(made: Cutting) -> Program:
    """FSDP1: each rank keeps an equal part of each bundle's flat parameter, which is one unit."""
    strategy = made.systems[System.FSDP1]
    cuts, padded = [], {}
    for bundle in strategy.bundles:
        if len({one.trainable for one in bundle.parameters}) > 1:
            raise NotShown(f"which part of {bundle.name} is trained on which rank is not shown")
        zeros = number(bundle, "padded_elements") - sum(one.elements for one in bundle.parameters)
        last = bundle.parameters[-1]
        padded[last.name] = last.elements + zeros
        cuts += [Cut(one, bundle.name) for one in bundle.parameters]
    return _of_shards(made, strategy, cuts, padded)


def _of_shards(
    made: Cutting, strategy: Strategy, cuts: Sequence[Cut], padded: dict[str, int]
) -> Program:
    """FSDP: what each rank keeps of a bundle is gathered for its module, and freed after it."""
    bundle_of = {one.name: bundle.name for bundle in strategy.bundles for one in bundle.parameters}
    for bundle in strategy.bundles:
        _require_shards(bundle)
    for one in cuts:
        one.bundle = bundle_of[one.parameter.name]
    units = made.units(cuts, padded)
    unit_bundle = {made.unit_of[name]: bundle for name, bundle in bundle_of.items()}
    trains = {unit.name for unit in units if unit.trainable}
    stays = {one.name for one in strategy.bundles if not flag(one, "reshards_after_forward")}
    late = {one.name for one in strategy.bundles if not flag(one, "reshards_after_backward")}
    division = Division(
        parameters=True,
        gradients=True,
        states=True,
        stays=frozenset(unit for unit, bundle in unit_bundle.items() if bundle in stays),
        frees_last=frozenset(unit for unit, bundle in unit_bundle.items() if bundle in late),
        modules={unit: "" if bundle == ROOT else bundle for unit, bundle in unit_bundle.items()},
        calls_within=True,
    )
    gathered: dict[str, Calls] = {}
    buckets = []
    for bundle in strategy.bundles:
        parts = made.bucket(bundle.name, (one.name for one in bundle.parameters)).segments
        gathered[bundle.name] = (tuple(one.unit for one in parts),)
        trained = tuple(one for one in parts if one.unit in trains)
        buckets.append(BucketLayout(name=bundle.name, segments=trained))
    return made.program(units, buckets, divided(made, division, seats_of(made)), gathered)


def _require_shards(bundle: Bundle) -> None:
    if text(bundle, "comm_hook"):
        raise NotShown(f"what the communication hook of {bundle.name} makes is not known")
    if flag(bundle, "starts_whole", default=False):
        raise NotShown(f"{bundle.name} stays gathered from one iteration to the next")


def _padded(parameter: Parameter, dim: int, num_rows: int) -> int:
    """Elements that all ranks keep: rows of the same number each, the last ones of zeros."""
    length = parameter.shape[dim] if parameter.shape else 1
    rows = -(-length // num_rows)
    return num_rows * rows * (parameter.elements // length) if length else 0
