"""What a beat is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from zerosim.schema.events import Phase


class Sign(StrEnum):
    """What is done in a beat."""

    GATHER = "gather"
    """Parameters of a unit: by all-gather, or by a broadcast of their owner."""
    COMPUTE = "compute"
    FREE = "free"
    """What was gathered of a unit is given back: part of a beat, when its computation ends."""
    REDUCE = "reduce"
    """Gradients: by reduce-scatter, all-reduce, all-to-all, or messages."""
    UPDATE = "update"
    """The optimizer."""
    COPY = "copy"
    """Between tiers."""
    SEND = "send"
    """Activations, or their gradients, between the stages of a pipeline."""
    COMBINE = "combine"
    """What ranks that compute a layer together put together: tensor parallel."""
    AGREE = "agree"
    """Numbers on which the ranks agree: losses, norms, flags; a barrier."""
    EXCHANGE = "exchange"
    """What else is communicated."""
    BEGIN = "begin"
    """A phase in which nothing else is recorded."""
    END = "end"
    """Of the iteration."""
    STAND = "stand"
    """The iteration is not over, as far as the trace goes: where the ranks are."""


@dataclass(frozen=True, slots=True)
class Doing:
    """One thing that ranks do.

    Attributes:
        unit: or bucket; "" if nobody said.
    """

    sign: Sign
    unit: str


class Turn(NamedTuple):
    """What a rank of a pipeline computes: a micro-batch, forward or backward, in one stage."""

    phase: Phase
    micro_batch: int
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Steps that follow each other, which a class would call one thing.

    Attributes:
        first, last: positions of its steps; both belong to it.
        main: the step that says what it is about.
        signs: what is done, in this order.
        units: which it is about, each once, in the order in which they come; without names empty.
        turns: in a pipeline, by rank what it computes.
        kept: likewise of how many micro-batches it keeps activations when the beat is over.
        phase, micro_step: of the main step.
        freed: units whose gathered parameters are given back when a step of it is over, its own
            or others.
        meanwhile: what goes on beside it.
        is_phase: it is a whole phase of a micro-step, as another micro-step shows it in many beats.
        within: the module of which it goes through all units one after the other: the tiles of an
            operator, or all that is in a block; "" for any other.
        is_prefetch: it gathers what is computed later, while something else is computed.
    """

    first: int
    last: int
    main: int
    signs: tuple[Sign, ...]
    units: tuple[str, ...]
    turns: tuple[tuple[int, Turn], ...] = ()
    kept: tuple[tuple[int, int], ...] = ()
    phase: Phase
    micro_step: int
    freed: tuple[str, ...] = ()
    meanwhile: tuple[Doing, ...] = ()
    is_phase: bool = False
    within: str = ""
    is_prefetch: bool = False

    @property
    def sign(self) -> Sign:
        """What it is about most of all: what is freed is so because of it."""
        return self.signs[0]
