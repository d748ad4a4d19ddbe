"""Pipeline parallel: the parameters of a rank's own stages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from zerosim.base.language import term
from zerosim.schema.strategies import Bundle, Strategy
from zerosim.systems.pipeline_parallel import NAME
from zerosim.theory.programs.divided import Divided, whole
from zerosim.theory.programs.states import AskedStates, KeptParts

BESIDE = (frozenset[str](),)


def keeps(asked: AskedStates) -> KeptParts | None:
    """The memory of a rank; None for stages without parameters."""
    found = list(_of_stages(asked.everywhere, asked.rank))
    return KeptParts(name=term(NAME), parts=found) if found else None


def _of_stages(strategies: Mapping[int, Sequence[Strategy]], rank: int) -> Iterator[Divided]:
    """Every parameter of every stage; this rank keeps those of its own."""
    mine = {bundle.name for one in strategies[rank] for bundle in one.bundles}
    seen: dict[str, Bundle] = {}
    ranks = {one.ranks for of_rank in strategies.values() for one in of_rank}
    for of_rank in strategies.values():
        for one in of_rank:
            seen |= {bundle.name: bundle for bundle in one.bundles}
    for name, bundle in seen.items():
        for parameter in bundle.parameters:
            part = whole(parameter)
            kept = part.kept if name in mine else 0
            yield replace(part, kept=kept, among=max(map(len, ranks)))
