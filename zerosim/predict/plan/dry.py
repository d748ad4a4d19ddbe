"""The difference between a dry run's peak and a plan's, part by part.

A plan predicts the memory of a GPU. A dry run counts the tensors that PyTorch keeps on a CPU, and
has no role for those that exist while the loss is computed; the law of activations omits
statistics. Each of these differences has its formula here, which is compared with dry runs
(`tests/predict/plan/test_dry.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.config.blocks import BlockShape
from zerosim.predict.plan.predict import PredictedLayout
from zerosim.schema.memory import Role
from zerosim.theory.footprint import LOG_PROBABILITIES, MADE_AGAIN, Footprint, footprints
from zerosim.theory.layout import Layout
from zerosim.theory.operators import Computing
from zerosim.theory.saved import Recompute

_FP32, _COPY, _INT64 = 4, 2, 8
_NORM = 6
"""Bytes per element that PyTorch's RMSNorm on a CPU keeps besides its input: the input in fp32, and
the quotient."""
_ANGLES = 8
"""Bytes of two elements of a head: cosine and sine, for queries and for keys."""


@dataclass(frozen=True, slots=True)
class DryPeak:
    """The peak that a dry run of a layout would have, and why it differs from a plan's.

    Attributes:
        bytes: bytes on a rank.
        kept: tensors that PyTorch keeps for backward on a CPU, but not with a GPU's fused
            operators.
        scores: tensors during the computation of the loss, which have no role in a dry run.
        table: a tied embedding, which stage 3 keeps gathered until the loss is computed, but not
            when backward begins, where a dry run samples memory.
        margin: the plan's margin for memory that no law counts.
        moment: the difference in the other parts, because the peak is at another moment.
    """

    bytes: int
    kept: int
    scores: int
    table: int
    margin: int
    moment: int


def dry_peak(predicted: PredictedLayout) -> DryPeak | None:
    """The peak of a dry run of a layout, and its difference from the plan's.

    None where it would not be exact: for layouts whose peak may be in a block's backward, for which
    a plan has an upper bound, and for layouts that were not compared with dry runs: those with
    states on the host, quantized or secondary parameters, or buckets of a given size.
    """
    config = predicted.layout.config
    if config.offloads or config.quantizes or config.has_secondary or config.bucket_elements:
        return None
    layout, plan = predicted.layout, predicted.footprint
    moments = footprints(layout)

    def held(one: Footprint) -> int:
        return _in_roles(one) + _kept_beside(layout, one)

    most = max(moments, key=held)
    if not _is_at_loss(most):
        return None
    at_plans = next(one for one in moments if one.moment == plan.moment)
    table = _table(at_plans)
    return DryPeak(
        bytes=held(most),
        kept=_kept_beside(layout, most),
        scores=at_plans.bytes - _in_roles(at_plans) - table,
        table=table,
        margin=plan.bytes - at_plans.bytes,
        moment=_in_roles(most) - _in_roles(at_plans),
    )


def _in_roles(footprint: Footprint) -> int:
    """The bytes that have a role in a dry run, and that exist when it samples memory."""
    there = sum(part.bytes for part in footprint.parts if part.role is not None)
    return there - _table(footprint)


def _table(footprint: Footprint) -> int:
    if not _is_at_loss(footprint):
        return 0
    return sum(part.bytes for part in footprint.parts if part.role is Role.GATHERED)


def _is_at_loss(footprint: Footprint) -> bool:
    return any(part.name == LOG_PROBABILITIES for part in footprint.parts)


def _kept_beside(layout: Layout, footprint: Footprint) -> int:
    """Bytes that the law of activations lacks, for the blocks with live activations."""
    computing = layout.computing
    names = {part.name for part in footprint.parts}
    found = 0
    if _is_at_loss(footprint):
        found += _norm_beside(computing, layout.shape.blocks[0], layout.shape.width, 1)
        found += 2 * _INT64 * computing.tokens
        found += _INT64 * computing.sequence if layout.shape.ends.positions else 0
    if layout.recompute is not Recompute.FULL:
        if "activations" in names:
            found += sum(one.layers * _block_beside(computing, one) for one in layout.shape.blocks)
    elif MADE_AGAIN in names:
        found += max(_block_beside(computing, one) for one in layout.shape.blocks)
    return found


def _block_beside(computing: Computing, block: BlockShape) -> int:
    width, tokens = computing.shape.width, computing.tokens
    found = _norm_beside(computing, block, block.norms * width, block.norms)
    if block.has_fused_norms:
        return found
    size = block.queries // block.heads
    if block.norm_elements > block.norms * width:  # of each head
        heads = (block.queries + block.keys) // size
        normed = block.queries + block.keys
        found += _norm_beside(computing, block, normed, heads)
        found += computing.element_bytes * tokens * normed
    if block.has_rotary:
        found += _ANGLES * computing.sequence * (size // 2)
    return found + _COPY * tokens * block.mixed


def _norm_beside(computing: Computing, block: BlockShape, elements: int, norms: int) -> int:
    """Bytes of norms with this many elements per token together: statistics and copies."""
    if block.has_fused_norms:
        return 2 * computing.element_bytes * norms * computing.tokens  # mean and standard deviation
    return (_NORM * elements + _FP32 * norms) * computing.tokens
