"""The shards of each rank if all parameters are sharded and gathered module by module."""

from __future__ import annotations

from collections.abc import Sequence

from zerosim.analysis.frames.cuts import ROOT, Cutting, NotShown, ParameterInUnit, ProgramUnits
from zerosim.analysis.frames.layout import Calls, Division
from zerosim.analysis.frames.seats import divided, seats_of
from zerosim.schema.manifest import BucketLayout
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.theory.programs.options import flag, text


def fully_sharded(
    made: Cutting, strategy: Strategy, cuts: Sequence[ParameterInUnit], padded: dict[str, int]
) -> ProgramUnits:
    """Each bundle is gathered for its module, and freed afterwards."""
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
        raise NotShown(f"the result of the communication hook of {bundle.name} is unknown")
    if flag(bundle, "starts_whole", default=False):
        raise NotShown(f"{bundle.name} stays gathered from one iteration to the next")
