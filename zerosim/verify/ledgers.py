"""Theory, trace and wire side by side, row by row.

Imports zerosim's L0, record, theory, and this package. No torch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from zerosim.config import DType, EngineConfig
from zerosim.errors import ConfigError, TraceError
from zerosim.events import Algorithm, Phase, Purpose
from zerosim.manifest import UnitLayout
from zerosim.record import Trace, ranks_per_node
from zerosim.theory import Activations, Cost, TrafficRow, UnitSize, Workload, expected_traffic
from zerosim.verify.measure import Moved, RankLedger, Reason
from zerosim.verify.report import LedgerRow, RankBytes

OF_BLOCKS = frozenset(
    {
        Purpose.ACTIVATIONS,
        Purpose.GATHER_ACTIVATIONS,
        Purpose.OFFLOAD_ACTIVATIONS,
        Purpose.FETCH_ACTIVATIONS,
    }
)
"""What depends on the blocks of a model, and not on its parameters."""
_POSITIONS, _BLOCK = "embedding.position.weight", "blocks."
"""Of a built-in GPT: a parameter of as many elements as one sequence has, and its blocks."""
PHASE_ORDER = (Phase.SETUP, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.OUTSIDE)


def config_of(trace: Trace) -> EngineConfig:
    """How the engine of a trace was configured.

    Raises:
        TraceError: the manifest has no usable engine configuration.
    """
    try:
        return EngineConfig.from_plain(trace.manifest.config)
    except (ConfigError, TypeError) as error:
        raise TraceError(
            f"{trace.folder}: the manifest's configuration is no use: {error}"
        ) from None


def tensor_parallel_of(trace: Trace) -> int:
    """T, ranks that compute each block together: as the run says, else as its calls do."""
    told = trace.manifest.run.get("tensor_parallel")
    if isinstance(told, int):
        return told
    first = trace.ranks[0]
    groups = (first.groups.get(e.group) for e in first.events if e.purpose in OF_BLOCKS)
    return next((len(group.ranks) for group in groups if group is not None), 1)


def activations_of(trace: Trace, config: EngineConfig) -> Activations | None:
    """What the blocks of a built-in GPT hand on and keep; None of a model that is not known."""
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
        is_recomputed=config.checkpoint_activations,
        is_partitioned=config.partition_activations,
        is_on_host=config.cpu_checkpointing,
    )


def has_no_law(purpose: Purpose, workload: Workload | None) -> bool:
    """Whether what is moved for this purpose depends on a model that theory does not know."""
    return workload is None or (workload.activations is None and purpose in OF_BLOCKS)


def workload_of(trace: Trace, iteration: int) -> Workload:
    """What the engine of a trace was configured to do in one iteration.

    Raises:
        TraceError: the manifest has no usable engine configuration.
    """
    manifest, config = trace.manifest, config_of(trace)
    metrics = trace.ranks[0].metrics
    names = {metric.name for metric in metrics if metric.iteration == iteration}
    together = tensor_parallel_of(trace)
    skipped = {metric.iteration for metric in metrics if metric.name == "overflow"}
    return Workload(
        stage=config.stage,
        num_ranks=manifest.num_ranks // together,
        units=unit_sizes(manifest.units),
        element_bytes=config.dtype.element_bytes,
        accumulate=config.accumulate,
        bucket_elements=config.bucket_elements,
        clips=config.clip is not None,
        scales_loss=config.dtype is DType.FP16,
        averages_loss="loss" in names,
        update_skipped=iteration in skipped,
        chunk_bytes=config.chunk_bytes,
        offload_optimizer=config.offload_optimizer.tier,
        offload_param=config.offload_param.tier,
        owner_broadcast=config.owner_broadcast,
        delayed_update=config.delayed_update,
        has_pending_update=iteration > 0 and iteration - 1 not in skipped,
        ranks_per_node=ranks_per_node(trace),
        quantize_weights=config.quantize_weights,
        secondary_partition=config.secondary_partition,
        quantize_gradients=config.quantize_gradients,
        quantization_block=config.quantization_block,
        tensor_parallel=together,
        activations=activations_of(trace, config),
    )


@lru_cache(maxsize=4)
def unit_sizes(units: tuple[UnitLayout, ...]) -> tuple[UnitSize, ...]:
    """A manifest's units as theory sees them; the same ones for each iteration."""
    return tuple(UnitSize(unit.name, unit.elements, unit.trainable) for unit in units)


def is_engine_trace(trace: Trace) -> bool:
    """True if zerosim's engine made the trace, so that a law is known."""
    return bool(trace.manifest.config) and bool(trace.manifest.units)


def ledger_rows(
    ledgers: dict[int, RankLedger], workload: Workload | None, algorithm: Algorithm
) -> tuple[LedgerRow, ...]:
    """One row for each reason that theory expects or the trace shows, in the order of phases.

    Args:
        ledgers: one iteration, by rank.
        workload: None for a program whose law is not known: theory is then what the trace shows.
        algorithm: who carries the engine's collectives out.
    """
    without = {rank: _without_law(ledger, workload) for rank, ledger in ledgers.items()}
    expected = {
        rank: {reason: moved.cost for reason, moved in found.items()}
        for rank, found in without.items()
    }
    native = {
        rank: {reason: moved.native for reason, moved in found.items()}
        for rank, found in without.items()
    }
    if workload is not None:
        for rank in ledgers:
            expected[rank] |= _by_reason(expected_traffic(workload, rank, Algorithm.RING))
            native[rank] |= _by_reason(expected_traffic(workload, rank, algorithm))
    reasons = {reason for ledger in ledgers.values() for reason in ledger.moved}
    for rows in expected.values():
        reasons |= set(rows)
    return tuple(_row(reason, ledgers, expected, native) for reason in sorted(reasons, key=_order))


def _without_law(ledger: RankLedger, workload: Workload | None) -> dict[Reason, Moved]:
    """What the trace shows for reasons of which theory says nothing."""
    return {
        reason: moved
        for reason, moved in ledger.moved.items()
        if has_no_law(reason.purpose, workload)
    }


def _row(
    reason: Reason,
    ledgers: dict[int, RankLedger],
    expected: dict[int, dict[Reason, Cost]],
    native: dict[int, dict[Reason, Cost]],
) -> LedgerRow:
    sent, received = [], []
    for rank, ledger in sorted(ledgers.items()):
        moved = ledger.moved.get(reason) or Moved()
        bound = expected[rank].get(reason, Cost())
        actual = native[rank].get(reason, Cost())
        sent.append(
            RankBytes(
                rank=rank,
                theory=bound.sent_bytes,
                trace=moved.cost.sent_bytes,
                wire=moved.wire_sent_bytes,
                algorithm=actual.sent_bytes - bound.sent_bytes,
                framing=moved.framing_sent_bytes,
            )
        )
        received.append(
            RankBytes(
                rank=rank,
                theory=bound.received_bytes,
                trace=moved.cost.received_bytes,
                wire=moved.wire_received_bytes,
                algorithm=actual.received_bytes - bound.received_bytes,
                framing=moved.framing_received_bytes,
            )
        )
    moving = (ledger.moved[reason] for ledger in ledgers.values() if reason in ledger.moved)
    first = next(moving, Moved())
    return LedgerRow(
        phase=reason.phase,
        purpose=reason.purpose,
        op=reason.op,
        num_collectives=first.num_collectives,
        payload_bytes=first.payload_bytes,
        sent=tuple(sent),
        received=tuple(received),
    )


def _by_reason(rows: tuple[TrafficRow, ...]) -> dict[Reason, Cost]:
    return {
        Reason(row.phase, row.purpose, row.op): Cost(row.sent_bytes, row.received_bytes)
        for row in rows
    }


def _order(reason: Reason) -> tuple[Any, ...]:
    return PHASE_ORDER.index(reason.phase), reason.purpose.value, reason.op.value
