"""The collectives of one optimizer step, one by one: what a system of the ZeRO family calls.

Source of what is sent when: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models" (arXiv 1910.02054), section 7; gradient accumulation follows from what
a stage keeps between micro-steps; quantized and hierarchical collectives are those of ZeRO++
(arXiv 2306.10209, section 3). Owners broadcast as in sections 5.3 and 7.2.2 of the first paper;
that gradients are reduce-scattered all the same, and updated rows sent to their owners, is our own
combination: the paper reduces a gradient to its owner, who then updates all of it. What they add up
to is in `traffic`. May import the standard library and layer L0.
"""

from __future__ import annotations

from functools import lru_cache

from zerosim.events import Op, Phase, Purpose
from zerosim.theory.call import Call
from zerosim.theory.checkpoints import activation_calls
from zerosim.theory.nodes import Span, members, span_size
from zerosim.theory.partition import bucket_size, cut_buckets, padded_elements, shard_elements
from zerosim.theory.workload import Workload
from zerosim.theory.zeropp import (
    INT4_BYTES,
    INT8_BYTES,
    int4_bytes,
    int8_bytes,
    secondary_elements,
)

FP32_BYTES = 4
FP64_BYTES = 8


def planned_calls(workload: Workload, rank: int = 0) -> tuple[Call, ...]:
    """Every collective of one optimizer step that `rank` calls, in the order of the phases.

    - Stage 0 all-reduces each bucket in the last micro-step.
    - Stage 1 reduce-scatters each bucket in the last micro-step, stage 2 in every one, because
      it keeps no whole gradient; both all-gather the updated parameters.
    - Stage 3 all-gathers each unit, also a frozen one, in forward and again in backward, and
      reduce-scatters each bucket, in every micro-step.
    - qwZ gathers int8 in forward, and in backward unless hpZ, by which each group of S ranks
      gathers its own copy there. qgZ reduces a bucket by an all-to-all within the nodes and one
      across them, both int4.
    - An owner broadcasts its units in place of the gathers, and is sent the updated rows.
    - In `Phase.UPDATE` the ranks agree on an overflow (one fp32 each), the gradient norm (one
      fp64 each; not after an overflow) and the loss (one fp32 each); the first two only where
      gradients are partitioned.

    What blocks of tensor parallel ranks call is in `checkpoints`. Only an owner's calls differ from
    rank to rank.

    Returns:
        One `Call` for each buffer and reason; nothing for one rank.
    """
    return _planned(workload, rank if workload.owner_broadcast else 0)


@lru_cache(maxsize=4)
def _planned(workload: Workload, rank: int) -> tuple[Call, ...]:
    """A step is asked for many times, by each rank, claim and phase."""
    calls = [*activation_calls(workload, Phase.FORWARD)]
    if workload.num_ranks == 1:
        return (*calls, *activation_calls(workload, Phase.BACKWARD))
    if workload.stage == 3:
        calls += _unshards(workload, Phase.FORWARD, rank)
        calls += _unshards(workload, Phase.BACKWARD, rank)
    calls += activation_calls(workload, Phase.BACKWARD)
    for bucket in cut_buckets(workload.units, workload.num_ranks, workload.bucket_elements):
        calls += _reductions(workload, bucket_size(bucket, workload.num_ranks))
    if workload.partitions and workload.scales_loss:
        calls.append(_one_number_a_rank(workload, Purpose.OVERFLOW_FLAG, FP32_BYTES))
    if workload.partitions and workload.clips and not workload.update_skipped:
        calls.append(_one_number_a_rank(workload, Purpose.GRADIENT_NORM, FP64_BYTES))
    if workload.stage in (1, 2) and workload.hands_on:
        calls += [
            _gather(workload, Phase.UPDATE, unit.elements)
            for unit in workload.units
            if unit.trainable
        ]
    if workload.owner_broadcast and workload.hands_on:
        calls += _to_owners(workload, rank)
    if workload.averages_loss:
        calls.append(_one_number_a_rank(workload, Purpose.AVERAGE_LOSS, FP32_BYTES))
    return tuple(calls)


def _unshards(workload: Workload, phase: Phase, rank: int) -> list[Call]:
    """How stage 3 gives each unit all its rows."""
    from_secondary = phase is Phase.BACKWARD and workload.has_secondary
    calls = []
    for position, unit in enumerate(workload.units):
        if from_secondary:
            part = secondary_elements(workload, unit.elements)
            calls.append(_gather(workload, phase, part * workload.secondary_partition))
        elif workload.owner_broadcast:
            owner = workload.owner(position, rank)
            calls.append(_gather(workload, phase, unit.elements, Op.BROADCAST, owner))
        elif workload.quantize_weights:
            calls.append(_quantized_gather(workload, phase, unit.elements))
        else:
            calls.append(_gather(workload, phase, unit.elements))
    return calls


def _gather(
    workload: Workload,
    phase: Phase,
    elements: int,
    op: Op = Op.ALL_GATHER,
    peer: int | None = None,
) -> Call:
    from_secondary = phase is Phase.BACKWARD and workload.has_secondary
    span = Span.SECONDARY if from_secondary else Span.WORLD
    return Call(
        phase=phase,
        purpose=Purpose.GATHER_PARAMETERS,
        op=op,
        num_elements=padded_elements(elements, span_size(workload, span)),
        element_bytes=workload.element_bytes,
        times=1 if phase is Phase.UPDATE else workload.accumulate,
        span=span,
        peer=peer,
    )


def _quantized_gather(workload: Workload, phase: Phase, elements: int) -> Call:
    row = shard_elements(elements, workload.num_ranks)
    return Call(
        phase=phase,
        purpose=Purpose.GATHER_PARAMETERS,
        op=Op.ALL_GATHER,
        num_elements=row * workload.num_ranks,
        element_bytes=INT8_BYTES,
        times=workload.accumulate,
        quantized_bytes=workload.num_ranks * int8_bytes(row, workload.quantization_block),
    )


def _reductions(workload: Workload, num_elements: int) -> list[Call]:
    """How a bucket of so many elements is reduced."""
    if not workload.quantize_gradients:
        op = Op.REDUCE_SCATTER if workload.partitions else Op.ALL_REDUCE
        return [_reduction(workload, op, num_elements, Span.WORLD)]
    spans = {Span.NODE: workload.num_ranks, Span.ACROSS: workload.num_nodes}
    columns = num_elements // workload.num_ranks
    return [
        _reduction(workload, Op.ALL_TO_ALL, rows * columns, span, rows)
        for span, rows in spans.items()
        if span_size(workload, span) > 1
    ]


def _reduction(
    workload: Workload, op: Op, num_elements: int, span: Span, quantized_rows: int = 0
) -> Call:
    quantized_bytes = None
    if quantized_rows:
        columns = num_elements // quantized_rows
        quantized_bytes = quantized_rows * int4_bytes(columns, workload.quantization_block)
    return Call(
        phase=Phase.BACKWARD,
        purpose=Purpose.REDUCE_GRADIENTS,
        op=op,
        num_elements=num_elements,
        element_bytes=INT4_BYTES if quantized_rows else workload.element_bytes,
        times=workload.num_reductions,
        span=span,
        quantized_bytes=quantized_bytes,
    )


def _to_owners(workload: Workload, rank: int) -> list[Call]:
    """Each rank sends its updated row of a unit to the rank that keeps the unit."""
    calls = []
    for position, unit in enumerate(workload.units):
        owner = workload.owner(position, rank)
        others = [peer for peer in members(workload, Span.WORLD, rank) if peer != owner]
        if not unit.trainable:
            continue
        calls += [
            Call(
                phase=Phase.UPDATE,
                purpose=Purpose.GATHER_PARAMETERS,
                op=Op.RECEIVE if rank == owner else Op.SEND,
                num_elements=shard_elements(unit.elements, workload.num_ranks),
                element_bytes=workload.element_bytes,
                peer=peer,
            )
            for peer in (others if rank == owner else [owner])
        ]
    return calls


def _one_number_a_rank(workload: Workload, purpose: Purpose, element_bytes: int) -> Call:
    return Call(
        phase=Phase.UPDATE,
        purpose=purpose,
        op=Op.ALL_GATHER,
        num_elements=workload.num_ranks,
        element_bytes=element_bytes,
    )


__all__ = ["Call", "planned_calls"]
