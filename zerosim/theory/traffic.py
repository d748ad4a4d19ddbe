"""What the stages of ZeRO send in one optimizer step, as exact rows: phase, purpose, operation.

Source of what is sent when: S. Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training
Trillion Parameter Models" (arXiv 1910.02054), section 7; gradient accumulation follows from what
a stage keeps between micro-steps. The paper's pure laws, and why a real step differs from them,
are in `laws`. May import the standard library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.config import STAGES
from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.theory.algorithms import DEFAULT_CHUNK_BYTES, Cost, cost
from zerosim.theory.partition import UnitSize, bucket_size, cut_buckets, padded_elements

FP32_BYTES = 4
FP64_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """All that decides what one optimizer step sends.

    Attributes:
        stage: 0 data parallel; 1, 2, 3 partition optimizer states, gradients, parameters.
        num_ranks: N.
        units: in forward order.
        element_bytes: of the compute dtype, in which parameters and gradients travel.
        accumulate: micro-steps of the optimizer step, g.
        bucket_elements: most elements reduced in one collective; None for one bucket a unit.
        clips: the global gradient norm is computed.
        scales_loss: the ranks agree whether a gradient overflowed (fp16).
        averages_loss: the ranks average their losses.
        update_skipped: an overflow was agreed on, so nothing is updated in this step.
        chunk_bytes: largest message of zerosim's ring.

    Raises:
        ConfigError: a value is out of its range, or two units have the same name.
    """

    stage: int
    num_ranks: int
    units: tuple[UnitSize, ...]
    element_bytes: int = 2
    accumulate: int = 1
    bucket_elements: int | None = None
    clips: bool = False
    scales_loss: bool = False
    averages_loss: bool = False
    update_skipped: bool = False
    chunk_bytes: int = DEFAULT_CHUNK_BYTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", tuple(self.units))
        if self.stage not in STAGES:
            raise ConfigError(f"stage is {self.stage}: expected 0, 1, 2 or 3")
        for what, number in (
            ("number of ranks", self.num_ranks),
            ("element bytes", self.element_bytes),
            ("accumulate", self.accumulate),
            ("bucket elements", 1 if self.bucket_elements is None else self.bucket_elements),
            ("chunk bytes", self.chunk_bytes),
            ("number of units", len(self.units)),
        ):
            if number < 1:
                raise ConfigError(f"{what} is {number}: expected 1 or more")
        cut_buckets(self.units, self.num_ranks, None)

    @property
    def num_parameters(self) -> int:
        """Psi: all parameters, trainable and frozen, without padding."""
        return sum(unit.elements for unit in self.units)

    @property
    def partitions(self) -> bool:
        """Whether a rank holds only a part of the reduced gradients: stages 1 to 3."""
        return self.stage > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The same collective, called one or more times in a step.

    Attributes:
        num_elements: of the whole buffer of one call.
        element_bytes: bytes of one element.
        times: how often it is called.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_elements: int
    element_bytes: int
    times: int = 1

    @property
    def payload_bytes(self) -> int:
        """Size of the buffers of all these calls together."""
        return self.num_elements * self.element_bytes * self.times

    def cost(self, workload: Workload, rank: int, algorithm: Algorithm) -> Cost:
        """What all these calls make `rank` send and receive.

        Raises:
            ConfigError: the algorithm's exact cost is not known, or there is no such rank.
        """
        one = cost(
            algorithm,
            self.op,
            workload.num_ranks,
            rank,
            self.num_elements,
            self.element_bytes,
            chunk_bytes=workload.chunk_bytes,
        )
        return one * self.times


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficRow:
    """What one rank exchanges for one reason in one phase of an optimizer step.

    Attributes:
        num_collectives: calls.
        payload_bytes: their buffers together, as `Event.payload_bytes` counts them.
        sent_bytes: what the algorithm makes this rank send, without framing.
        received_bytes: likewise, received.
        messages_sent: None where the backend does not say.
        messages_received: likewise.
    """

    phase: Phase
    purpose: Purpose
    op: Op
    num_collectives: int
    payload_bytes: int
    sent_bytes: int
    received_bytes: int
    messages_sent: int | None
    messages_received: int | None


def planned_calls(workload: Workload) -> tuple[Call, ...]:
    """Every collective of one optimizer step, in the order of the phases.

    - Stage 0 all-reduces each bucket in the last micro-step.
    - Stage 1 reduce-scatters each bucket in the last micro-step, stage 2 in every one, because
      it keeps no whole gradient; both all-gather the updated parameters.
    - Stage 3 all-gathers each unit, also a frozen one, in forward and again in backward, and
      reduce-scatters each bucket, in every micro-step.
    - In `Phase.UPDATE` the ranks agree on an overflow (one fp32 each), the gradient norm (one
      fp64 each; not after an overflow) and the loss (one fp32 each); the first two only where
      gradients are partitioned.

    Returns:
        Nothing for one rank; otherwise one `Call` for each buffer and reason.
    """
    if workload.num_ranks == 1:
        return ()
    reduce_op = Op.REDUCE_SCATTER if workload.partitions else Op.ALL_REDUCE
    num_reductions = workload.accumulate if workload.stage >= 2 else 1
    calls: list[Call] = []
    if workload.stage == 3:
        calls += _gathers(workload, Phase.FORWARD)
        calls += _gathers(workload, Phase.BACKWARD)
    for bucket in cut_buckets(workload.units, workload.num_ranks, workload.bucket_elements):
        calls.append(
            Call(
                phase=Phase.BACKWARD,
                purpose=Purpose.REDUCE_GRADIENTS,
                op=reduce_op,
                num_elements=bucket_size(bucket, workload.num_ranks),
                element_bytes=workload.element_bytes,
                times=num_reductions,
            )
        )
    if workload.partitions and workload.scales_loss:
        calls.append(_one_number_a_rank(workload, Purpose.OVERFLOW_FLAG, FP32_BYTES))
    if workload.partitions and workload.clips and not workload.update_skipped:
        calls.append(_one_number_a_rank(workload, Purpose.GRADIENT_NORM, FP64_BYTES))
    if workload.stage in (1, 2) and not workload.update_skipped:
        calls += _gathers(workload, Phase.UPDATE)
    if workload.averages_loss:
        calls.append(_one_number_a_rank(workload, Purpose.AVERAGE_LOSS, FP32_BYTES))
    return tuple(calls)


def _gathers(workload: Workload, phase: Phase) -> list[Call]:
    return [
        Call(
            phase=phase,
            purpose=Purpose.GATHER_PARAMETERS,
            op=Op.ALL_GATHER,
            num_elements=padded_elements(unit.elements, workload.num_ranks),
            element_bytes=workload.element_bytes,
            times=1 if phase is Phase.UPDATE else workload.accumulate,
        )
        for unit in workload.units
        if unit.trainable or phase is not Phase.UPDATE
    ]


def _one_number_a_rank(workload: Workload, purpose: Purpose, element_bytes: int) -> Call:
    return Call(
        phase=Phase.UPDATE,
        purpose=purpose,
        op=Op.ALL_GATHER,
        num_elements=workload.num_ranks,
        element_bytes=element_bytes,
    )


def expected_traffic(
    workload: Workload, rank: int, algorithm: Algorithm = Algorithm.RING
) -> tuple[TrafficRow, ...]:
    """What `rank` sends and receives in one optimizer step.

    Args:
        workload: the step.
        rank: 0 to N - 1.
        algorithm: zerosim's ring, which is the bound that the paper means, or the native calls
            of a backend for the same requests.

    Returns:
        One row for each phase, purpose and operation, in the order of the phases; nothing for
        one rank.

    Raises:
        ConfigError: the algorithm's exact cost is not known, or there is no such rank.
    """
    if not 0 <= rank < workload.num_ranks:
        raise ConfigError(f"rank {rank}: expected 0 to {workload.num_ranks - 1}")
    grouped: dict[tuple[Phase, Purpose, Op], list[Call]] = {}
    for call in planned_calls(workload):
        grouped.setdefault((call.phase, call.purpose, call.op), []).append(call)
    rows = []
    for (phase, purpose, op), calls in grouped.items():
        total = Cost()
        for call in calls:
            total += call.cost(workload, rank, algorithm)
        rows.append(
            TrafficRow(
                phase=phase,
                purpose=purpose,
                op=op,
                num_collectives=sum(call.times for call in calls),
                payload_bytes=sum(call.payload_bytes for call in calls),
                sent_bytes=total.sent_bytes,
                received_bytes=total.received_bytes,
                messages_sent=total.messages_sent,
                messages_received=total.messages_received,
            )
        )
    return tuple(rows)


def total_sent_bytes(rows: tuple[TrafficRow, ...], phase: Phase | None = None) -> int:
    """What the rows send together, of one phase or of all."""
    return sum(row.sent_bytes for row in rows if phase is None or row.phase is phase)


def total_received_bytes(rows: tuple[TrafficRow, ...], phase: Phase | None = None) -> int:
    """What the rows receive together, of one phase or of all."""
    return sum(row.received_bytes for row in rows if phase is None or row.phase is phase)
