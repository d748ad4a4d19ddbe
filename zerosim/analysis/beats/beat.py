"""The records of a beat."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from zerosim.schema.events import Phase


class Sign(StrEnum):
    """The actions of a beat."""

    GATHER = "gather"
    """Gather a unit's parameters: by all-gather, or by a broadcast of their owner."""
    COMPUTE = "compute"
    FREE = "free"
    """Free a unit's gathered parameters, as part of the beat in which its computation ends."""
    REDUCE = "reduce"
    """Gradients: by reduce-scatter, all-reduce, all-to-all, or messages."""
    UPDATE = "update"
    """The optimizer."""
    COPY = "copy"
    """Copy between tiers."""
    SEND = "send"
    """Send activations, or their gradients, between the stages of a pipeline."""
    COMBINE = "combine"
    """Combine the partial results of tensor-parallel ranks."""
    AGREE = "agree"
    """Agree on numbers: losses, norms, flags; a barrier."""
    EXCHANGE = "exchange"
    """Other communication."""
    BEGIN = "begin"
    """A phase with no other recorded action."""
    END = "end"
    """The end of the iteration."""
    STAND = "stand"
    """The trace ends within the iteration: the positions of the ranks."""


@dataclass(frozen=True, slots=True)
class Doing:
    """One action of ranks.

    Attributes:
        unit: unit or bucket; "" if unknown.
    """

    sign: Sign
    unit: str


class Turn(NamedTuple):
    """The turn of a rank in a pipeline: a micro-batch, forward or backward, in one stage."""

    phase: Phase
    micro_batch: int
    stage: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Consecutive steps that a lecture would show as one action.

    Attributes:
        first, last: indices of its steps, inclusive.
        main: its main step.
        signs: its actions, in order.
        units: its units, each once, in order; empty without names.
        turns: in a pipeline, the turn of each rank.
        kept: in a pipeline, the number of micro-batches with live activations at its end, by rank.
        phase, micro_step: of the main step.
        freed: units whose gathered parameters are freed at the end of one of its steps, its own or
            others.
        meanwhile: concurrent actions.
        is_phase: whether it is a whole phase of a micro-step, which is shown in detail for
            another micro-step.
        within: the module whose units it processes one after another: the tiles of an operator, or
            all units of a block; "" otherwise.
        is_prefetch: it prefetches a unit during another computation.
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
        """The main action; frees are its consequences."""
        return self.signs[0]
