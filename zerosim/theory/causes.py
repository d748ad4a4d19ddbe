"""The records of a law, and the names of all deviations of a step from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zerosim.base.quantities import PSI


class Cause(StrEnum):
    """Why a step sends, or a rank keeps, more or less than under the pure law."""

    PADDING = "padding"
    """Zeros that make units a multiple of the number of ranks."""
    REPLICATED = "replicated parameters"
    """Parameters that every rank keeps whole, although the law divides all of them."""
    FROZEN_PARAMETERS = "frozen parameters"
    """Parameters without gradients: the law counts them, the stages send less for them."""
    SKIPPED_UPDATE = "skipped update"
    """After an overflow nothing is updated, so nothing updated is gathered."""
    OVERFLOW_FLAG = "overflow flag"
    GRADIENT_NORM = "gradient norm"
    AVERAGE_LOSS = "average loss"
    BACKEND_ALGORITHM = "backend's algorithm"
    """A native call that moves more than the bound of its payload."""
    SEGMENT_ROUNDING = "rounding of the backend's segments"
    """A native call that does not divide its buffer equally among the ranks."""
    SCALES = "scales of quantization"
    """An fp32 scale per block of quantized elements, and the unused half byte of an odd row."""
    DELAYED_UPDATE = "delayed update"
    """The first step has no delayed update from an earlier one."""
    ACTIVATIONS = "activations"
    """Activations of tensor- and expert-parallel ranks, and checkpoints: the law counts only
    parameters and gradients."""
    UNEQUAL_PARTS = "unequal parts of ranks"
    """A root sends more than others, and some ranks are roots more often than others."""

    # of programs that zerosim's engine did not run
    KEPT_PARAMETERS = "parameters kept"
    """Gathered parameters are kept, so they are not gathered again."""
    UNUSED = "unused parameters"
    """Modules that a forward does not call are not gathered; parameters without a gradient are not
    reduced."""
    SMALLER_GROUP = "smaller group"
    """Parameters are gathered again within a smaller group than that of their shards."""
    RECOMPUTATION = "recomputation"
    """Forward is recomputed in backward, including its communication."""
    USED_AGAIN = "parameters used again"
    """Several modules share a parameter, or one computes several times: each gathers it."""
    REDUCED_AGAIN = "gradients reduced again"
    """Gradients are reduced in each micro-step instead of once."""
    NOT_REDUCED = "gradients not reduced"
    """Gradients are accumulated in place, or not needed."""
    NEVER_READY = "gradients never ready"
    """A reduction waits for gradients that never arrive: it is never made, and replicas diverge."""
    ALL_REDUCED = "gradients all-reduced"
    """Each rank gets all sums instead of its own part."""
    REDUCTION_DTYPE = "dtype of the reduction"
    """Gradients are communicated in a different dtype from the parameters."""
    GATHER_DTYPE = "dtype of the parameters"
    """Parameters are communicated in a dtype different from the one in which they are stored."""
    HOOK = "communication hook"
    """The traffic of the program's own communication hook instead of an all-reduce."""
    AVERAGED_PARAMETERS = "parameters averaged"
    """Local SGD averages parameters every few steps instead of gradients in each."""
    COMPUTED_UPDATE = "computing the update"
    """An optimizer that needs whole matrices (Muon) gathers them; Adam works element by element."""
    BUCKETS = "buckets"
    """Buckets contain more or less than the gradients of all parameters."""
    SEPARATE_INPUTS = "separate inputs"
    """Tensor parallel: modules with the same input each communicate for it separately."""
    PARTIAL_GRADIENTS = "partial gradients"
    """Tensor parallel: gradients are left as partial sums, which the optimizer all-reduces each
    time that it reads them."""
    BESIDE_THE_LAYERS = "beside the layers"
    """Tensor parallel: sharded modules outside of a pair of column- and row-parallel layers."""
    ONE_RANK = "stages on one rank"
    """Pipeline parallel: neighbouring stages on the same rank need no message."""
    BUFFERS = "buffers"
    INITIAL_STATE = "initial state"
    BROADCAST_PARAMETERS = "broadcast parameters"
    """Data that one rank changed or trained last, and that it broadcasts to all others."""
    METADATA = "metadata"
    SYNCHRONIZATION = "synchronization"
    ASKED_FOR = "asked for by the program"
    """Parameters that the program itself gathers, besides those of the computation."""
    NO_PLAN = "no plan"
    """What a system sends with an option that theory has no plan for."""
    EVALUATION = "evaluation"
    """A forward without gradients between two steps."""
    OUTSIDE = "outside of the step"
    """A checkpoint or an evaluation metric: in the iteration, but outside of its optimizer step."""
    UNLIKE = "unlike the law"
    """A hand-written program's traffic above or below that of the closest known pattern."""
    SMALL = "small beside the model"
    """Scalars that the program itself reduces in a step: a norm, an accuracy, a flag."""
    NOT_ATTRIBUTED = "not attributed"
    """Traffic of unknown purpose."""


LEFT_OUT = frozenset(
    {
        Cause.PADDING,
        Cause.SKIPPED_UPDATE,
        Cause.OVERFLOW_FLAG,
        Cause.GRADIENT_NORM,
        Cause.AVERAGE_LOSS,
        Cause.SEGMENT_ROUNDING,
        Cause.SCALES,
        Cause.DELAYED_UPDATE,
        Cause.ACTIVATIONS,
        Cause.UNEQUAL_PARTS,
        Cause.BESIDE_THE_LAYERS,
        Cause.ONE_RANK,
        Cause.BUFFERS,
        Cause.INITIAL_STATE,
        Cause.BROADCAST_PARAMETERS,
        Cause.METADATA,
        Cause.SYNCHRONIZATION,
        Cause.EVALUATION,
        Cause.OUTSIDE,
        Cause.SMALL,
    }
)
"""Causes that a law omits: a step with no other cause is as predicted. Any other cause makes a step
differ from its law, in every system."""


@dataclass(frozen=True, slots=True)
class Law:
    """The communication of a step, or of one phase of it, according to the paper.

    Attributes:
        payloads: the amount, in `unit`.
        words: a description of the amount.
        source: paper and section.
        sent_bytes: per rank, exact: for a ring of N, Psi x element bytes x payloads x (N-1)/N.
        unit: the unit of `payloads`: Psi, or b s h, the activations of one boundary.
        symbols: the traffic of a rank, such as "2Ψ(N-1)/N".
    """

    payloads: Fraction
    words: str
    source: str
    sent_bytes: Fraction
    unit: str = PSI
    symbols: str = ""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A part of a rank's traffic beyond the law, or short of it if negative.

    Attributes:
        cause: its name.
        bytes: exact; positive if more is sent.
        words: an explanation with this step's numbers.
    """

    cause: Cause
    bytes: Fraction
    words: str
