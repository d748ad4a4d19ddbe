"""What blocks call that T tensor parallel ranks compute together, and what P_a adds.

A block that Megatron's plan cuts sums its output twice in forward and the gradient of its input
twice in backward, each an all-reduce of b s h elements; with checkpoints its forward is computed
again in backward, with its sums. P_a divides a checkpoint among the T ranks, which gather it before
that: one all-gather of b s h, a twelfth of the 6 all-reduces, each of which a ring counts twice.

Sources: M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3; S. Rajbhandari et al.,
"ZeRO" (arXiv 1910.02054), sections 6.1 and 8. May import the standard library and layer L0.
"""

from __future__ import annotations

from zerosim.events import Op, Phase, Purpose
from zerosim.theory.call import Call
from zerosim.theory.nodes import Span
from zerosim.theory.workload import Workload

SUMS_A_PASS = 2
"""All-reduces of a block in forward, and again in backward."""


def activation_calls(workload: Workload, phase: Phase) -> list[Call]:
    """What the blocks of a step call in forward or backward; nothing for T = 1."""
    kept = workload.activations
    if kept is None or workload.tensor_parallel == 1:
        return []
    is_again = phase is Phase.BACKWARD and kept.is_recomputed
    times = kept.num_blocks * workload.accumulate
    sums = Call(
        phase=phase,
        purpose=Purpose.ACTIVATIONS,
        op=Op.ALL_REDUCE,
        num_elements=kept.elements,
        element_bytes=workload.element_bytes,
        times=times * SUMS_A_PASS * (2 if is_again else 1),
        span=Span.TENSOR,
        carrier=kept.carrier,
    )
    if not (is_again and kept.is_partitioned):
        return [sums]
    gather = Call(
        phase=phase,
        purpose=Purpose.GATHER_ACTIVATIONS,
        op=Op.ALL_GATHER,
        num_elements=workload.part_elements * workload.tensor_parallel,
        element_bytes=workload.element_bytes,
        times=times,
        span=Span.TENSOR,
    )
    return [gather, sums]
