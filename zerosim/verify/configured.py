"""The declared configuration of zerosim's engine in a trace, and its workload."""

from __future__ import annotations

from functools import lru_cache

from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError, TraceError
from zerosim.record import Trace, ranks_per_node
from zerosim.schema.events import Algorithm
from zerosim.schema.manifest import UnitLayout
from zerosim.theory import Activations, UnitSize, Workload
from zerosim.verify.attribution import OF_BLOCKS

_POSITIONS, _BLOCK = "embedding.position.weight", "blocks."
"""In a built-in GPT: the names of its positional embedding and of its blocks."""


def config_of(trace: Trace) -> EngineConfig | None:
    """The configuration of zerosim's engine; None for the trace of another system.

    Raises:
        TraceError: the configuration in the manifest cannot be used.
    """
    if not trace.manifest.config or not trace.manifest.units:
        return None
    try:
        return EngineConfig.from_plain(trace.manifest.config)
    except (ConfigError, TypeError) as error:
        raise TraceError(
            f"{trace.folder}: the manifest's configuration is unusable: {error}"
        ) from None


def tensor_parallel_of(trace: Trace) -> int:
    """T, ranks that compute each block together: as declared by the run, else from its calls."""
    told = trace.manifest.run.get("tensor_parallel")
    if isinstance(told, int):
        return told
    first = trace.ranks[0]
    groups = (first.groups.get(e.group) for e in first.events if e.purpose in OF_BLOCKS)
    return next((len(group.ranks) for group in groups if group is not None), 1)


def activations_of(trace: Trace) -> Activations | None:
    """The activations passed between blocks of a built-in GPT; None for an unknown model."""
    manifest = trace.manifest
    slots = {slot.name: slot.elements for unit in manifest.units for slot in unit.slots}
    batch, sequence = manifest.run.get("batch"), slots.get(_POSITIONS)
    blocks = {
        unit.name.removesuffix(".frozen") for unit in manifest.units if unit.name.startswith(_BLOCK)
    }
    if not isinstance(batch, int) or sequence is None or not blocks:
        return None
    known = list(Algorithm)
    return Activations(
        num_blocks=len(blocks),
        elements=batch * sequence,
        carrier=Algorithm(manifest.backend) if manifest.backend in known else Algorithm.OTHER,
    )


def workload_of(trace: Trace, iteration: int) -> Workload | None:
    """The engine's configured work in one iteration; None for another system's trace.

    Raises:
        TraceError: the configuration in the manifest cannot be used.
    """
    manifest, config = trace.manifest, config_of(trace)
    if config is None:
        return None
    metrics = trace.ranks[0].metrics
    names = {metric.name for metric in metrics if metric.iteration == iteration}
    together = tensor_parallel_of(trace)
    skipped = {metric.iteration for metric in metrics if metric.name == "overflow"}
    return Workload(
        config=config,
        num_ranks=manifest.num_ranks // together,
        units=unit_sizes(manifest.units),
        averages_loss="loss" in names,
        update_skipped=iteration in skipped,
        has_pending_update=iteration > 0 and iteration - 1 not in skipped,
        tensor_parallel=together,
        ranks_per_node=ranks_per_node(trace),
        activations=activations_of(trace),
    )


@lru_cache(maxsize=4)
def unit_sizes(units: tuple[UnitLayout, ...]) -> tuple[UnitSize, ...]:
    """The units of a manifest as records of theory; the same objects for each iteration."""
    return tuple(UnitSize(unit.name, unit.elements, unit.trainable) for unit in units)
