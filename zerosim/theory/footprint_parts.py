"""Parts of a rank's memory, and the parts that belong to a micro-batch: its activations.

A plan needs the bytes of thousands of layouts, and the words of the few that are displayed. Laws
and sources are therefore put into words on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from zerosim.base.tiers import Tier
from zerosim.schema.memory import Role
from zerosim.theory.model_states import ModelStates
from zerosim.theory.operators import Computing
from zerosim.theory.saved import (
    LOSS_BYTES,
    TEMPORARY_LOSS_BYTES,
    KeptActivations,
    Recompute,
    block_bytes,
    formula,
    head_bytes,
    loss_elements,
    statistics_bytes,
)
from zerosim.theory.transformer import LayerCut
from zerosim.theory.wording import said

_KORTHIKANTI = "Korthikanti et al., arXiv 2205.05198, section 4"
_OWN = "zerosim.train.models, next_byte_loss"
LOG_PROBABILITIES, MADE_AGAIN = "log-probabilities", "a block made again"
"""Parts of a moment, by name."""
Kinds = tuple[tuple[str, int], ...]
"""Kinds of blocks of a stage, and the number of each."""


@dataclass(frozen=True, slots=True)
class InWords:
    """A string that is produced on demand, because the language may change later."""

    key: str
    fields: tuple[tuple[str, object], ...] = ()

    def __str__(self) -> str:
        return said(self.key, **dict(self.fields))


@dataclass(frozen=True, slots=True)
class LawOfRole:
    """The law of a role among the model states."""

    states: ModelStates
    role: Role

    def __str__(self) -> str:
        laws = self.states.role_laws(Tier.DEVICE)
        return next((law.words for law in laws if law.role is self.role), "")


@dataclass(frozen=True, slots=True)
class LawOfBlocks:
    """The law of the activations of some blocks, or of one recomputed block.

    Attributes:
        counts: number of blocks of each kind; None for one recomputed block.
    """

    computing: Computing
    keeping: KeptActivations
    counts: tuple[tuple[str, Fraction | int | None], ...]

    def __str__(self) -> str:
        return " + ".join(self._of(kind, count) for kind, count in self.counts)

    def _of(self, kind: str, count: Fraction | int | None) -> str:
        cut, keeping = self.computing.cut, self.keeping
        is_full = keeping.recompute is Recompute.FULL
        between = f"/{cut.between}" if cut.between > 1 else ""
        divided = f"/{cut.tensor}" if cut.tensor > 1 and cut.sequence else ""
        symbols = formula(self.computing.shape, keeping, between if is_full else divided, kind)
        inside = "" if is_full else str(_inside(cut))
        if count is None:
            return said("footprint.of_one_block", symbols=symbols, inside=inside)
        if count == 1:
            return said("footprint.of_1_block", symbols=symbols, inside=inside)
        blocks = f"{float(count):g}"
        return said("footprint.of_blocks", symbols=symbols, inside=inside, count=blocks)


def _inside(cut: LayerCut) -> str | InWords:
    """A note that activations between blocks are not sharded; "" if they are."""
    if cut.tensor == 1 or cut.sequence:
        return ""
    return words("footprint.inside", parts=cut.tensor)


def words(key: str, **fields: object) -> InWords:
    """A message with its placeholders filled in."""
    return InWords(key, tuple(fields.items()))


@dataclass(frozen=True, slots=True)
class FootprintPart:
    """A part of a rank's memory at one moment.

    Attributes:
        law: the law in symbols, or in words with symbols.
        cited: source of the law.
        role: its role in a run's memory; None if no run attributes it to a role.
    """

    name: str
    bytes: int
    law: str | InWords | LawOfRole | LawOfBlocks
    cited: str | InWords
    role: Role | None = None

    @property
    def formula(self) -> str:
        """The law in the current language."""
        return str(self.law)

    @property
    def source(self) -> str:
        """The source in the current language."""
        return str(self.cited)


Parts = tuple[FootprintPart, ...]


def bytes_of(parts: Parts) -> int:
    """The bytes of all parts."""
    return sum([part.bytes for part in parts])


class StageActivations(NamedTuple):
    """The activations of a rank at each moment with activations, in bytes.

    Attributes:
        kinds: the kinds of the stage's blocks.
        micro_batches: number of micro-batches with live activations.
        kept, first: activations kept by all blocks, and by the first one alone.
        again, first_again: activations recomputed by one block, and by the first one.
        scores: logits before and in the head.
    """

    computing: Computing
    keeping: KeptActivations
    kinds: Kinds
    micro_batches: Fraction | int
    kept: int
    first: int
    again: int
    first_again: int
    scores: int

    def at_loss(self) -> Parts:
        """The activations at the loss, with the logits of all tokens."""
        return (self._kept(), *_scores(self.computing))

    def at_last_block(self) -> Parts:
        """The activations at the last block, with those that it recomputes."""
        return (self._kept(), *_made_again(self.computing, self.keeping, self.kinds))

    def at_first_block(self) -> Parts:
        """The activations of the first block alone, with those that it recomputes."""
        kept = _part(self.computing, self.keeping, self.first, ((self.kinds[0][0], 1),))
        return (kept, *_made_again(self.computing, self.keeping, self.kinds[:1]))

    def _kept(self) -> FootprintPart:
        counts = tuple((kind, times * self.micro_batches) for kind, times in self.kinds)
        if self.keeping.recompute is Recompute.FULL:  # each block keeps its input
            counts = ((counts[0][0], sum(count for _, count in counts)),)
        return _part(self.computing, self.keeping, self.kept, counts)


@lru_cache(maxsize=4096)
def activations(
    computing: Computing, keeping: KeptActivations, kinds: Kinds, micro_batches: Fraction | int
) -> StageActivations:
    """The activations of a stage's blocks, and those that one block recomputes in its backward."""
    first = kinds[:1]
    return StageActivations(
        computing,
        keeping,
        kinds,
        micro_batches,
        kept=int(_kept_by(computing, keeping, kinds) * micro_batches),
        first=_kept_by(computing, keeping, ((first[0][0], 1),)),
        again=_bytes_again(computing, keeping, kinds),
        first_again=_bytes_again(computing, keeping, first),
        scores=_bytes_of_scores(computing),
    )


@lru_cache(maxsize=4096)
def _kept_by(computing: Computing, keeping: KeptActivations, kinds: Kinds) -> int:
    """Bytes that all blocks keep for a micro-batch."""
    has_statistics = keeping.recompute is not Recompute.FULL and not keeping.has_scores
    beside = statistics_bytes(computing) if has_statistics else 0
    return sum([times * (block_bytes(computing, keeping, kind) + beside) for kind, times in kinds])


@lru_cache(maxsize=1024)
def _bytes_again(computing: Computing, keeping: KeptActivations, kinds: Kinds) -> int:
    return bytes_of(_made_again(computing, keeping, kinds))


@lru_cache(maxsize=1024)
def _bytes_of_scores(computing: Computing) -> int:
    return bytes_of(_scores(computing))


def _part(
    computing: Computing,
    keeping: KeptActivations,
    size: int,
    counts: tuple[tuple[str, Fraction | int | None], ...],
) -> FootprintPart:
    name, role = "activations", Role.ACTIVATIONS
    if keeping.recompute is Recompute.FULL:
        name, role = "activation checkpoints", Role.CHECKPOINTS
    return FootprintPart(name, size, LawOfBlocks(computing, keeping, counts), _KORTHIKANTI, role)


@lru_cache(maxsize=1024)
def _made_again(computing: Computing, keeping: KeptActivations, kinds: Kinds) -> Parts:
    """The recomputed activations of one block, of the largest kind."""
    if keeping.recompute not in (Recompute.FULL, Recompute.OPERATORS):
        return ()
    again = KeptActivations(Recompute.NONE, keeping.has_scores, keeping.has_dropout)
    largest = max((kind for kind, _ in kinds), key=lambda kind: block_bytes(computing, again, kind))
    size = block_bytes(computing, again, largest) + statistics_bytes(computing)
    law = LawOfBlocks(computing, again, ((largest, None),))
    return (FootprintPart(MADE_AGAIN, size, law, _KORTHIKANTI, Role.ACTIVATIONS),)


@lru_cache(maxsize=1024)
def _scores(computing: Computing) -> Parts:
    elements = loss_elements(computing)
    parts = f"/{computing.cut.of_ends}" if computing.cut.of_ends > 1 else ""
    size, before = LOSS_BYTES * elements, head_bytes(computing)
    return (
        FootprintPart(
            "inputs of the last norm and of the head",
            before,
            "4sbh",
            _KORTHIKANTI,
            Role.ACTIVATIONS,
        ),
        FootprintPart(LOG_PROBABILITIES, size, f"4sbV{parts}", _KORTHIKANTI, Role.ACTIVATIONS),
        FootprintPart(
            "logits, until the loss is computed",
            TEMPORARY_LOSS_BYTES * elements,
            f"6sbV{parts}",
            _OWN,
        ),
    )
