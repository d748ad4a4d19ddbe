"""The paper's pure traffic laws, and every named cause by which an exact step differs from them.

A law counts payloads in Psi, all parameters without padding; a rank of a ring of N sends
(N-1)/N of each. The deviations of a step add up exactly, as fractions, to what it sends less
what the law says: nothing is left unexplained.

Source: S. Rajbhandari et al., "ZeRO" (arXiv 1910.02054), section 7. May import the standard
library and layer L0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zerosim.config import STAGE_NAMES
from zerosim.errors import ConfigError
from zerosim.events import Algorithm, Op, Phase, Purpose
from zerosim.quantities import PSI, format_exact, format_exact_bytes, format_psi
from zerosim.theory.partition import padding_elements
from zerosim.theory.traffic import Call, Workload, planned_calls

PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
"""The phases in which a step communicates, in their order."""


class Cause(StrEnum):
    """Why a step sends, or a rank keeps, more or less than the pure law says."""

    PADDING = "padding"
    """Zeros that make units a multiple of the number of ranks."""
    FROZEN_PARAMETERS = "frozen parameters"
    """Parameters without gradients: the law counts them, the stages send less for them."""
    SKIPPED_UPDATE = "skipped update"
    """After an overflow nothing is updated, so nothing updated is gathered."""
    OVERFLOW_FLAG = "overflow flag"
    GRADIENT_NORM = "gradient norm"
    AVERAGE_LOSS = "average loss"
    BACKEND_ALGORITHM = "backend's algorithm"
    """A native call that moves more than the bound of what it was asked for."""
    SEGMENT_ROUNDING = "rounding of the backend's segments"
    """A native call that does not divide its buffer equally among the ranks."""

    # of programs that zerosim's engine did not run
    KEPT_PARAMETERS = "parameters kept"
    """What was gathered is kept, so it is not gathered again."""
    SMALLER_GROUP = "smaller group"
    """Gathered again among fewer ranks than it is divided among."""
    RECOMPUTATION = "recomputation"
    """Forward is computed again in backward, with what it communicates."""
    REDUCED_AGAIN = "gradients reduced again"
    """Gradients are reduced in each micro-step where once would do."""
    NOT_REDUCED = "gradients not reduced"
    """Gradients are added up where they are, or nobody needs them."""
    ALL_REDUCED = "gradients all-reduced"
    """Each rank gets all sums where its own part would do."""
    REDUCTION_DTYPE = "dtype of the reduction"
    """Gradients travel in another dtype than parameters."""
    HOOK = "communication hook"
    """What the program's own function sends in place of an all-reduce."""
    BUCKETS = "buckets"
    """Buckets hold more or less than the gradients of all parameters."""
    SEPARATE_INPUTS = "separate inputs"
    """Tensor parallel: modules that share an input communicate for it one by one."""
    PARTIAL_GRADIENTS = "partial gradients"
    """Tensor parallel: an optimizer completes sums that gradients were left as, as often as it
    reads them."""
    BESIDE_THE_LAYERS = "beside the layers"
    """Tensor parallel: what is divided and belongs to no pair of column and row."""
    ONE_RANK = "stages on one rank"
    """Pipeline parallel: neighbouring stages that need no message."""
    UNEQUAL_PARTS = "unequal parts of ranks"
    """A root sends more than others, and some ranks are roots of more than others are."""
    BUFFERS = "buffers"
    INITIAL_STATE = "initial state"
    METADATA = "metadata"
    SYNCHRONIZATION = "synchronization"
    OUTSIDE = "outside of the step"
    """An evaluation, a checkpoint: in the iteration and not in its step."""
    UNLIKE = "unlike the law"
    """What a hand-written program sends beside the law that it is most like, or less."""
    NOT_ATTRIBUTED = "not attributed"
    """What nobody said the purpose of."""


@dataclass(frozen=True, slots=True)
class Law:
    """What the paper says that a step, or one phase of it, communicates.

    Attributes:
        payloads: in `unit`.
        words: what they are.
        source: paper and section.
        sent_bytes: per rank, exact: Psi x element bytes x payloads x (N-1)/N.
        unit: what `payloads` counts: Psi, or b s h, the activations of one boundary.
    """

    payloads: Fraction
    words: str
    source: str
    sent_bytes: Fraction
    unit: str = PSI


@dataclass(frozen=True, slots=True)
class Deviation:
    """A part of what a rank sends beyond the law, or less than it if negative.

    Attributes:
        cause: its name.
        bytes: exact; positive if more is sent.
        words: how it comes about, with this step's numbers.
    """

    cause: Cause
    bytes: Fraction
    words: str


@dataclass(frozen=True, slots=True)
class _Passes:
    """How many payloads of each kind of parameter one phase moves."""

    law: int
    trainable: int
    frozen: int


def _passes(workload: Workload, phase: Phase) -> _Passes:
    g = workload.accumulate
    gathered = 0 if workload.update_skipped else 1
    by_stage = (
        {Phase.BACKWARD: _Passes(2, 2, 0)},
        {Phase.BACKWARD: _Passes(1, 1, 0), Phase.UPDATE: _Passes(1, gathered, 0)},
        {Phase.BACKWARD: _Passes(g, g, 0), Phase.UPDATE: _Passes(1, gathered, 0)},
        {Phase.FORWARD: _Passes(g, g, g), Phase.BACKWARD: _Passes(2 * g, 2 * g, g)},
    )
    return by_stage[workload.stage].get(phase, _Passes(0, 0, 0))


_WORDS = {
    0: "all-reduce of the gradients, which is a reduce-scatter and an all-gather",
    1: "reduce-scatter of the gradients, all-gather of the updated parameters",
    2: "reduce-scatter of the gradients in each micro-step, all-gather of the updated parameters",
    3: "all-gather of the parameters in forward and in backward, reduce-scatter of the "
    "gradients, in each micro-step",
}
_SECTIONS = {0: "7.1", 1: "7.2.1", 2: "7.2.1", 3: "7.2.2"}


def law(workload: Workload, phase: Phase | None = None) -> Law:
    """The pure law: 2 Psi for stages 0 and 1, g + 1 for stage 2, 3g for stage 3.

    Args:
        workload: the step; g is its number of micro-steps. The law knows nothing of padding,
            frozen parameters, clipping or loss scaling.
        phase: only this phase's part of it; None for the whole step.
    """
    phases = PHASES if phase is None else (phase,)
    payloads = Fraction(sum(_passes(workload, each).law for each in phases))
    source = f"Rajbhandari et al., arXiv 1910.02054, section {_SECTIONS[workload.stage]}"
    if workload.accumulate > 1:
        source += f"; with {workload.accumulate} micro-steps"
    words = f"{STAGE_NAMES[workload.stage]}: {_WORDS[workload.stage]}"
    if phase is not None:
        words += f" ({phase} only)"
    return Law(payloads, words, source, payloads * _bytes_a_pass(workload, workload.num_parameters))


def _bytes_a_pass(workload: Workload, num_elements: int) -> Fraction:
    """What a rank of a ring sends for one payload of `num_elements`."""
    share = Fraction(workload.num_ranks - 1, workload.num_ranks)
    return num_elements * workload.element_bytes * share


def deviations(
    workload: Workload,
    rank: int,
    algorithm: Algorithm = Algorithm.RING,
    phase: Phase | None = None,
) -> tuple[Deviation, ...]:
    """Why `expected_traffic` is not what `law` says, cause by cause.

    Args:
        workload: the step.
        rank: 0 to N - 1.
        algorithm: as given to `expected_traffic`; of a native backend, the differences from the
            ring are causes of their own.
        phase: only this phase's part; None for the whole step.

    Returns:
        The causes that are not zero, in the order of `Cause`. Their sum is exactly the bytes
        that `expected_traffic` says `rank` sends, less `law(...).sent_bytes`.

    Raises:
        ConfigError: the algorithm's exact cost is not known, or there is no such rank.
    """
    if not 0 <= rank < workload.num_ranks:
        raise ConfigError(f"rank {rank}: expected 0 to {workload.num_ranks - 1}")
    phases = PHASES if phase is None else (phase,)
    calls = [call for call in planned_calls(workload) if call.phase in phases]
    found = [
        *_of_parameters(workload, phases),
        *_of_numbers(workload, rank, calls),
        *_of_algorithm(workload, rank, calls, algorithm),
    ]
    return tuple(deviation for deviation in found if deviation.bytes)


def _of_parameters(workload: Workload, phases: tuple[Phase, ...]) -> list[Deviation]:
    """Padding, frozen parameters, and the gather that a skipped update leaves out."""
    passes = [_passes(workload, phase) for phase in phases]
    num_law = sum(each.law for each in passes)
    num_trainable = sum(each.trainable for each in passes)
    num_frozen = sum(each.frozen for each in passes)
    sizes = {True: 0, False: 0}
    padding = {True: 0, False: 0}
    for unit in workload.units:
        sizes[unit.trainable] += unit.elements
        padding[unit.trainable] += padding_elements(unit.elements, workload.num_ranks)
    padded_passes = num_trainable * padding[True] + num_frozen * padding[False]
    return [
        Deviation(
            Cause.PADDING,
            _bytes_a_pass(workload, padded_passes),
            f"{format_exact(padding[True] + padding[False])} elements of padding; each pass over "
            f"a padded unit carries its own, {format_exact(padded_passes)} elements in all",
        ),
        Deviation(
            Cause.FROZEN_PARAMETERS,
            _bytes_a_pass(workload, (num_frozen - num_law) * sizes[False]),
            f"{format_exact(sizes[False])} frozen parameters are moved {num_frozen} times, the "
            f"law says {num_law}",
        ),
        Deviation(
            Cause.SKIPPED_UPDATE,
            _bytes_a_pass(workload, (num_trainable - num_law) * sizes[True]),
            f"{format_exact(sizes[True])} trainable parameters are not gathered, because an "
            "overflow left them as they were",
        ),
    ]


_NUMBERS = {
    Purpose.OVERFLOW_FLAG: (Cause.OVERFLOW_FLAG, "fp32"),
    Purpose.GRADIENT_NORM: (Cause.GRADIENT_NORM, "fp64"),
    Purpose.AVERAGE_LOSS: (Cause.AVERAGE_LOSS, "fp32"),
}


def _of_numbers(workload: Workload, rank: int, calls: list[Call]) -> list[Deviation]:
    return [
        Deviation(
            cause,
            Fraction(call.cost(workload, rank, Algorithm.RING).sent_bytes),
            f"all-gather of one {dtype} a rank: {workload.num_ranks - 1} x {call.element_bytes} B",
        )
        for call in calls
        for purpose, (cause, dtype) in _NUMBERS.items()
        if call.purpose is purpose
    ]


def _of_algorithm(
    workload: Workload, rank: int, calls: list[Call], algorithm: Algorithm
) -> list[Deviation]:
    """How the backend's own calls differ from the ring on the same requests."""
    if algorithm is Algorithm.RING:
        return []
    whole = Fraction(0)
    doubled_bytes = 0
    rounding = Fraction(0)
    for call in calls:
        ring_bytes = call.cost(workload, rank, Algorithm.RING).sent_bytes
        native_bytes = call.cost(workload, rank, algorithm).sent_bytes
        excess = Fraction(0)
        if algorithm is Algorithm.GLOO and call.op is Op.REDUCE_SCATTER:
            excess = Fraction(call.payload_bytes * (workload.num_ranks - 1), workload.num_ranks)
            doubled_bytes += call.payload_bytes
        whole += excess
        rounding += native_bytes - ring_bytes - excess
    psi = Fraction(doubled_bytes, workload.num_parameters * workload.element_bytes)
    return [
        Deviation(
            Cause.BACKEND_ALGORITHM,
            whole,
            f"Gloo carries reduce-scatter out as all-reduce: + {format_psi(psi, 2)}",
        ),
        Deviation(
            Cause.SEGMENT_ROUNDING,
            rounding,
            f"rounding of Gloo's segments: ranks send unequal parts, rank {rank} "
            f"{format_exact_bytes(rounding)} beside the equal share",
        ),
    ]
