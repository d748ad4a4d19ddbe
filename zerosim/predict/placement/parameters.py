"""The work of a recorded computation, from the parameters of its unit: a run counts no FLOPs.

2 FLOPs per parameter and token in forward and 4 in backward (Narayanan et al. 2021, appendix,
without the attention term); an update reads and writes Adam's states of each parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zerosim.predict.placement.costs import Tasks
from zerosim.record import Trace
from zerosim.schema.events import Phase
from zerosim.schema.manifest import Manifest

UPDATE_BYTES = 28
"""Per parameter: master, momentum and variance read and written, gradient and parameter once each
(Adam in mixed precision, ZeRO, arXiv 1910.02054, section 3.1)."""
_FLOPS = {Phase.FORWARD: 2, Phase.BACKWARD: 4}


@dataclass(frozen=True, slots=True)
class Products:
    """A whole computation as one operation."""

    calls: int
    flops: int
    touched_bytes: int


class ByParameters:
    """The work of the computations of one run."""

    def __init__(self, trace: Trace, tokens: int) -> None:
        """`tokens` is the number of tokens of a rank's micro-batch."""
        self._tokens = tokens
        self._elements = _elements(trace)
        self._all = sum(self._elements.values())
        self._parts = _parts(trace.manifest)

    def __call__(self, tasks: Tasks) -> Sequence[Sequence[Products]]:
        """One operation per computation; none for a unit without a description."""
        columns = (tasks.column("phase"), tasks.column("unit"))
        return [[self.of(phase, unit)] for phase, unit in zip(*columns, strict=True)]

    def of(self, phase: Phase, unit: str) -> Products:
        """The work of a unit in a phase."""
        if phase is Phase.UPDATE:
            elements = self._elements.get(unit, self._all)
            return Products(1, 0, UPDATE_BYTES * elements // self._parts)
        return Products(1, _FLOPS.get(phase, 0) * self._elements.get(unit, 0) * self._tokens, 0)


def _elements(trace: Trace) -> dict[str, int]:
    """Parameters by unit: by the engine's layout, or by the names of a program's modules."""
    if trace.manifest.units:
        return {unit.name: unit.elements for unit in trace.manifest.units}
    units = {unit for unit in trace.ranks[0].events.column("unit") if unit}
    found = dict.fromkeys(sorted(units), 0)
    for strategy in trace.ranks[0].strategies[:1]:
        for bundle in strategy.bundles:
            for parameter in bundle.parameters:
                for unit in units:
                    if parameter.name.startswith(f"{unit}."):
                        found[unit] += parameter.elements
    return found


def _parts(manifest: Manifest) -> int:
    """The number of ranks that share the updates of a unit."""
    stage = manifest.config.get("stage", 0)
    return manifest.num_ranks if isinstance(stage, int) and stage > 0 else 1
