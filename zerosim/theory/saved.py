"""The law of activations: those of a transformer that forward keeps for backward.

Per block of a GPT with dropout, in 2-byte activations, b sequences of s tokens of width h and a
heads: s b h (34 + 5 a s / h). Tensor parallelism divides the activations inside attention and MLP
by T; sequence parallelism the rest as well. Attention that does not store scores (flash) removes
the second term, as selective recomputation does; without dropout there are no masks: 32 s b h. With
full recomputation a block keeps its input, 2 s b h. Statistics of norms and of attention (4 bytes
per token and head) are counted with their operator.

Source: V. Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
(arXiv 2205.05198), sections 4 and 5, equations 1 to 6; the law of Llama's blocks is derived here:
keys and values of k heads, an MLP of three matrices of width f, no biases and no masks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from zerosim.base.config.blocks import BlockShape
from zerosim.base.config.shapes import Transformer
from zerosim.theory.operators import Computing
from zerosim.theory.transformer import BLOCK, kinds_of

_FP32 = 4
_USUAL = 4
"""Tensors as wide as a token: two norms, attention and the MLP read one each."""
_MASK = 1
"""Bytes of an element of a dropout's mask."""
LOSS_BYTES = 4
"""Per token and vocabulary entry: log-probabilities in fp32, kept for backward."""
TEMPORARY_LOSS_BYTES = 6
"""In addition, while the loss is computed: logits in the dtype of the head, and in fp32."""


class Recompute(StrEnum):
    """The part that backward recomputes."""

    NONE = "none"
    SELECTIVE = "selective"
    """Scores of attention and tensors derived from them."""
    OPERATORS = "operators"
    """Every second matrix product, and all other operators (torchtitan's selective op)."""
    FULL = "full"
    """A whole block, from its input."""


@dataclass(frozen=True, slots=True)
class Saved:
    """One tensor, or several, that a block keeps.

    Attributes:
        bytes: on each rank.
        is_score: whether selective recomputation recomputes it; attention without scores does
            not have it.
    """

    what: str
    bytes: Fraction
    is_score: bool = False


@dataclass(frozen=True, slots=True)
class KeptActivations:
    """How a program keeps the activations of its blocks.

    Attributes:
        recompute: the part that backward recomputes.
        has_scores: whether its attention computes and keeps the scores of all pairs of tokens.
        has_dropout: dropout after attention, on its scores, and after the MLP.
    """

    recompute: Recompute = Recompute.NONE
    has_scores: bool = False
    has_dropout: bool = False


ALL = KeptActivations()
"""Nothing is recomputed, and no scores are stored: how the built-in models train."""


def kept_in_block(
    computing: Computing, keeping: KeptActivations, name: str = BLOCK
) -> tuple[Saved, ...]:
    """All activations that one block keeps until its backward."""
    if keeping.recompute is Recompute.FULL:
        size = computing.between_elements * computing.element_bytes
        return (Saved("the block's input", Fraction(size)),)
    leaves_scores = keeping.recompute is Recompute.SELECTIVE or not keeping.has_scores
    block = kinds_of(computing.shape)[name]
    if keeping.recompute is Recompute.OPERATORS:
        return tuple(_kept_by_operators(computing, block))
    found = tuple(_kept(computing, block, has_dropout=keeping.has_dropout))
    return tuple(one for one in found if not (one.is_score and leaves_scores))


def _kept(computing: Computing, block: BlockShape, *, has_dropout: bool) -> Iterator[Saved]:
    shape, cut, size = computing.shape, computing.cut, computing.element_bytes
    tokens, parts = computing.tokens, cut.tensor

    def between(what: str, element_bytes: int) -> Saved:
        return Saved(what, Fraction(element_bytes * tokens * shape.width, cut.between))

    def inside(what: str, width: int, element_bytes: int = size) -> Saved:
        return Saved(what, Fraction(element_bytes * tokens * width, parts))

    if block.between == _USUAL:
        yield between("inputs of the two norms", 2 * size)
        yield between("what attention reads", size)
    else:
        yield between("what norms, attention and the MLP read", block.between * size)
    yield inside("queries", block.queries)
    yield inside("keys and values", block.keys + block.values)
    if block.latent:
        yield Saved("latent queries, keys and values", Fraction(size * tokens * block.latent))
    scores = Fraction(int(tokens * block.attended(computing.sequence)) * block.heads, parts)
    yield Saved("scores", size * scores, is_score=True)
    if has_dropout:
        yield Saved("scores after dropout, and its mask", (size + _MASK) * scores, is_score=True)
    yield inside("what attention mixed", block.mixed)
    if block.between == _USUAL:
        yield between("what the MLP reads", size)
    if block.experts:
        yield Saved(
            "what chosen experts read and give",
            Fraction(2 * size * tokens * shape.width * block.experts.active),
        )
    if not block.is_gated:
        yield inside("the MLP's inner tokens, before and after GELU", 2 * block.active_inner)
    else:
        yield inside("gate, its SiLU, up, and their product", 4 * block.active_inner)
    if has_dropout:
        yield between("masks of the two dropouts", 2 * _MASK)


def _kept_by_operators(computing: Computing, block: BlockShape) -> Iterator[Saved]:
    """The block's input, the output of attention, and that of every second matrix product.

    Source: pytorch/torchtitan, activation checkpointing "selective", option "op".
    """
    size, tokens, parts = computing.element_bytes, computing.tokens, computing.cut.tensor
    width = Fraction(computing.shape.width, computing.cut.between)
    yield Saved("the block's input", size * tokens * width)
    yield Saved("what attention mixed", Fraction(size * tokens * block.mixed, parts))
    given = block.queries + block.keys + block.values
    given += (2 if block.is_gated else 1) * block.active_inner
    yield Saved("every second product", Fraction(size * tokens * given, 2 * parts))
    yield Saved("every second sum", size * tokens * width)


@lru_cache(maxsize=4096)
def block_bytes(computing: Computing, keeping: KeptActivations, name: str = BLOCK) -> int:
    """Total bytes of the activations of one block."""
    return int(sum(one.bytes for one in kept_in_block(computing, keeping, name)))


def statistics_bytes(computing: Computing) -> int:
    """Statistics of flash attention per token and head, fp32; no law counts them."""
    return _FP32 * computing.tokens * computing.shape.heads // computing.cut.tensor


def head_bytes(computing: Computing) -> int:
    """Inputs of the last norm and of the head: 4 s b h."""
    return 2 * computing.element_bytes * computing.between_elements


def loss_elements(computing: Computing) -> int:
    """Logits of all tokens for a rank's part of the vocabulary: s b V / T."""
    return computing.tokens * -(-computing.shape.vocabulary // computing.cut.of_ends)


def in_flight(pipeline: int, chunks: int = 1) -> Fraction:
    """Live activations on the first stage, in those of all layers: 1 + (p-1) / (p v).

    These are p micro-batches of L / p layers each, and some more with v interleaved chunks.
    """
    if chunks == 1 or pipeline == 1:
        return Fraction(1)
    return 1 + Fraction(pipeline - 1, pipeline * chunks)


def formula(shape: Transformer, keeping: KeptActivations, cut_words: str, name: str = BLOCK) -> str:
    """The activations of a block of one kind, in symbols.

    Args:
        cut_words: the divisor of parallel ranks, such as "/T", or "".
    """
    if keeping.recompute is Recompute.FULL:
        return f"2sbh{cut_words}"
    block, h = kinds_of(shape)[name], shape.width
    usual = block.queries == h and not block.experts and not block.latent and block.between == 4
    usual = usual and (block.is_gated or block.inner == 4 * h)
    if keeping.recompute is Recompute.OPERATORS or not usual:
        each = block_bytes(Computing(shape, 1, 1), KeptActivations(keeping.recompute), name)
        return f"{each:,}sb{cut_words}"
    if block.is_gated:
        return f"sb(12h + 4hk/a + 8f){cut_words}"
    base = 34 if keeping.has_dropout else 32
    leaves = keeping.recompute is Recompute.SELECTIVE or not keeping.has_scores
    scores = "" if leaves else f" + {5 if keeping.has_dropout else 2}as²b"
    return f"{base}sbh{scores}{cut_words}"
