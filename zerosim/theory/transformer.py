"""What a transformer of equal blocks has to compute: its units, and the operators of each.

A block's matrices may be cut among T tensor parallel ranks (the first of attention and of the MLP
by columns, the second by rows); what lies between two blocks is then whole on each of them, or with
sequence parallelism cut along the sequence. The table of tokens and the head are cut by vocabulary.

The operators are those that PyTorch is asked for by `zerosim.train.models`, each with its floating
point operations (a multiplication and an addition are two) and with the bytes of its tensors,
touched once; a test holds them against what a dry run counts. What is the same small vector for all
tokens (a norm's weight, the angles of rotary positions) is left out.

Sources: D. Narayanan et al. 2021 (arXiv 2104.04473), appendix: 24 B s h^2 + 4 B s^2 h FLOPs of a
GPT's block in forward, twice that in backward; M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053),
section 3; V. Korthikanti et al. (arXiv 2205.05198), section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zerosim.base.config.shapes import GPTConfig, LlamaConfig, Transformer
from zerosim.base.errors import ConfigError
from zerosim.theory.partition import UnitSize

ROOT, EMBEDDING, BLOCK, HEAD = "root", "embedding", "block", "head"
_FP32 = 4
_BACKWARD_OF_ATTENTION = 2.5
"""Its five matrix products, in place of two: scores are computed again (Dao et al. 2022)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How the layers of a model are cut among ranks.

    Attributes:
        tensor: T, ranks that compute each block together.
        sequence: what lies between blocks is cut along the sequence, too.
        ends: the tables of tokens are cut as well; zerosim's own engine leaves them whole.
    """

    tensor: int = 1
    sequence: bool = False
    ends: bool = True

    @property
    def of_ends(self) -> int:
        """Into how many parts the tables of tokens are cut."""
        return self.tensor if self.ends else 1

    @property
    def between(self) -> int:
        """Into how many parts what lies between blocks is cut."""
        return self.tensor if self.sequence else 1


WHOLE = Cut()


@dataclass(frozen=True, slots=True)
class Operator:
    """What one operator has to do, so many times.

    Attributes:
        flops, touched_bytes: of one call.
    """

    calls: int
    flops: int
    touched_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit, or several that are alike.

    Attributes:
        name: `ROOT`, `EMBEDDING`, `BLOCK` or `HEAD`.
        elements: of one, on a rank.
        times: how many there are.
    """

    name: str
    elements: int
    times: int = 1


def require_cut(name: str, shape: Transformer, tensor: int) -> None:
    """See that so many ranks can compute a block together.

    Raises:
        ConfigError: they do not divide its heads.
    """
    heads = shape.key_heads if isinstance(shape, LlamaConfig) else shape.heads
    if tensor < 1 or heads % tensor:
        what = "heads of keys" if isinstance(shape, LlamaConfig) else "heads"
        raise ConfigError(
            f"tensor parallel is {tensor}: expected a divisor of {name}'s {heads} {what}"
        )


def pieces(shape: Transformer, cut: Cut = WHOLE) -> tuple[Piece, ...]:
    """The units of a model in forward order, as the engine makes them.

    Tied, the table of tokens is the root's: it is there while the whole model computes.
    """
    h, tokens = shape.width, -(-shape.vocabulary // cut.of_ends)
    block = Piece(BLOCK, _block_elements(shape, cut.tensor), shape.layers)
    if isinstance(shape, LlamaConfig):
        return (Piece(EMBEDDING, tokens * h), block, Piece(HEAD, tokens * h + h))
    positions = shape.context * h
    if shape.tied:
        ends = (Piece(ROOT, tokens * h), Piece(EMBEDDING, positions))
        return (*ends, block, Piece(HEAD, 2 * h))
    return (Piece(EMBEDDING, tokens * h + positions), block, Piece(HEAD, tokens * h + 2 * h))


def _block_elements(shape: Transformer, tensor: int) -> int:
    """Matrices and the biases of their columns are cut; norms and the biases of sums are whole."""
    h = shape.width
    if isinstance(shape, GPTConfig):
        return (12 * h * h + 7 * h) // tensor + 6 * h
    return (2 * h * h + 2 * h * keys_of(shape) + 3 * h * shape.hidden) // tensor + 2 * h


def keys_of(shape: Transformer) -> int:
    """Elements of a token's keys."""
    if isinstance(shape, GPTConfig):
        return shape.width
    return shape.width // shape.heads * shape.key_heads


def units_of(shape: Transformer, cut: Cut = WHOLE) -> tuple[UnitSize, ...]:
    """Every unit of a model in forward order, by the names that the engine gives them."""
    return tuple(
        UnitSize(f"blocks.{number}" if piece.name == BLOCK else piece.name, piece.elements)
        for piece in pieces(shape, cut)
        for number in range(piece.times)
    )


@dataclass(frozen=True, slots=True)
class Computing:
    """The operators of one micro-batch on one rank.

    Attributes:
        batch: b, sequences of a micro-batch.
        sequence: s, tokens of each.
        element_bytes: of the compute dtype.
    """

    shape: Transformer
    batch: int
    sequence: int
    cut: Cut = WHOLE
    element_bytes: int = 2

    @property
    def tokens(self) -> int:
        """Of a micro-batch: b s."""
        return self.batch * self.sequence

    @property
    def between_elements(self) -> int:
        """Of what lies between two blocks, on a rank: b s h, or a T-th part of it."""
        return self.tokens * self.shape.width // self.cut.between

    def forward(self, name: str) -> tuple[Operator, ...]:
        """Of one unit in forward."""
        return tuple(self._forward(name))

    def backward(self, name: str) -> tuple[Operator, ...]:
        """Of one unit in backward, without what is computed again."""
        return tuple(self._backward(name))

    def _forward(self, name: str) -> Iterator[Operator]:
        if name == EMBEDDING:
            yield from self._look_up()
        elif name == BLOCK:
            yield from self._norm(2)
            yield from self._products(1)
            yield self._attention(1, 4)
            yield from self._block_elementwise()
        elif name == HEAD:
            yield from self._norm(1)
            yield self._product(1, self.shape.width, self._tokens_known)

    def _backward(self, name: str) -> Iterator[Operator]:
        if name == EMBEDDING:
            yield from self._look_up_backward()
            yield self._kept(self._embedding_elements)
        elif name == BLOCK:
            yield from self._norm_backward(first=True)
            yield from self._norm_backward(first=False)
            yield from self._products(2)
            yield self._attention(_BACKWARD_OF_ATTENTION, 8)
            yield from self._block_elementwise_backward()
            yield self._kept(_block_elements(self.shape, self.cut.tensor))
        elif name == HEAD:
            yield from self._norm_backward(first=True)
            yield self._product(2, self.shape.width, self._tokens_known)
            tied = isinstance(self.shape, GPTConfig) and self.shape.tied
            yield self._kept(0 if tied else self.shape.width * self._tokens_known)

    # ------------------------------------------------------------------- what they are made of

    @property
    def _tokens_known(self) -> int:
        return -(-self.shape.vocabulary // self.cut.of_ends)

    @property
    def _embedding_elements(self) -> int:
        return next(one.elements for one in pieces(self.shape, self.cut) if one.name == EMBEDDING)

    def _product(self, calls: int, inputs: int, outputs: int) -> Operator:
        """A matrix product: all tokens of `inputs` elements each become `outputs`."""
        rows, size = self.tokens, self.element_bytes
        touched = size * (rows * inputs + inputs * outputs + rows * outputs)
        return Operator(calls, 2 * rows * inputs * outputs, touched)

    def _products(self, calls: int) -> Iterator[Operator]:
        """Those of a block: once in forward, twice in backward."""
        shape, parts = self.shape, self.cut.tensor
        h = shape.width
        if isinstance(shape, GPTConfig):
            yield self._product(calls, h, 3 * h // parts)
            yield self._product(calls, h // parts, h)
            yield self._product(2 * calls, h, 4 * h // parts)
            return
        yield self._product(2 * calls, h, h // parts)
        yield self._product(2 * calls, h, keys_of(shape) // parts)
        yield self._product(3 * calls, h, shape.hidden // parts)

    def _attention(self, times: float, passes: int) -> Operator:
        """Scores and their product with the values, without keeping any: 4 b s^2 h FLOPs."""
        shape, parts = self.shape, self.cut.tensor
        flops = 4 * self.tokens * self.sequence * shape.width // parts
        queries, keys = shape.width // parts, keys_of(shape) // parts
        half = passes // 2
        touched = self.element_bytes * self.tokens * half * (queries + keys)
        statistics = _FP32 * self.tokens * shape.heads // parts
        return Operator(1, int(times * flops), touched + statistics)

    def _each(self, calls: int, passes: int, width: int, parts: int) -> Operator:
        """An operator that reads and writes `passes` bytes for each element of so wide tokens."""
        return Operator(calls, 0, passes * self.tokens * width // parts)

    def _norm(self, count: int) -> Iterator[Operator]:
        h, parts, size = self.shape.width, self.cut.between, self.element_bytes
        if isinstance(self.shape, GPTConfig):
            yield self._each(count, 2 * size, h, parts)
            return
        yield self._each(2 * count, size + _FP32, h, parts)  # to fp32 and back
        yield self._each(3 * count, 2 * _FP32, h, parts)
        yield self._each(count, _FP32, h, parts)

    def _norm_backward(self, *, first: bool) -> Iterator[Operator]:
        """Of one norm; of a unit's first one, what comes before its unit's backward counts as over.

        In fp32 where PyTorch has no one operator for it, as for Llama's.
        """
        h, parts, size = self.shape.width, self.cut.between, self.element_bytes
        if isinstance(self.shape, GPTConfig):
            yield self._each(1, 3 * size, h, parts)
            return
        copies, of_three, of_two, of_one = (1, 1, 1, 1) if first else (2, 4, 4, 3)
        yield self._each(copies, size + _FP32, h, parts)
        yield self._each(of_three, 3 * _FP32, h, parts)
        yield self._each(of_two, 2 * _FP32, h, parts)
        yield self._each(of_one, _FP32, h, parts)

    def _block_elementwise(self) -> Iterator[Operator]:
        shape, size, parts = self.shape, self.element_bytes, self.cut.tensor
        h = shape.width
        yield self._each(2, 3 * size, h, self.cut.between)  # what is added to a block's input
        if isinstance(shape, GPTConfig):
            yield self._each(1, 2 * size, 4 * h, parts)
            return
        for width in (h, keys_of(shape)):
            yield from self._rotary(width)
        yield self._each(1, 2 * size, h, parts)
        yield self._each(1, 2 * size, shape.hidden, parts)
        yield self._each(1, 3 * size, shape.hidden, parts)

    def _block_elementwise_backward(self) -> Iterator[Operator]:
        shape, size, parts = self.shape, self.element_bytes, self.cut.tensor
        h = shape.width
        yield self._each(2, 3 * size, h, self.cut.between)
        if isinstance(shape, GPTConfig):
            yield self._each(1, 3 * size, 4 * h, parts)
            yield self._each(2, 6 * size, h, parts)  # queries, keys and values side by side
            yield self._each(1, size, 3 * h, parts)  # biases
            yield self._each(2, size, h, self.cut.between)
            yield self._each(1, size, 4 * h, parts)
            return
        yield self._each(2, 3 * size, h, self.cut.between)
        for width in (h, keys_of(shape)):
            yield from self._rotary(width)
            yield self._each(1, size, width, parts)
            yield self._each(1, 2 * size, width, parts)
        yield self._each(3, 3 * size, shape.hidden, parts)

    def _rotary(self, width: int) -> Iterator[Operator]:
        """Half of the elements times cosines and sines, twice; sums; put together."""
        size, parts = self.element_bytes, self.cut.tensor
        yield self._each(4, size, width, parts)
        yield self._each(2, 3 * size // 2, width, parts)
        yield self._each(1, 2 * size, width, parts)

    def _look_up(self) -> Iterator[Operator]:
        """A table counts as touched whole."""
        size, rows = self.element_bytes, self.between_elements
        shape = self.shape
        yield Operator(1, 0, size * (self._tokens_known * shape.width + rows))
        if isinstance(shape, GPTConfig):
            positions = self.sequence * shape.width
            yield Operator(1, 0, size * 2 * positions)
            yield Operator(1, 0, size * (2 * rows + positions))

    def _look_up_backward(self) -> Iterator[Operator]:
        """Of a table that the root keeps, nothing is the embedding's own."""
        size, rows, shape = self.element_bytes, self.between_elements, self.shape
        if isinstance(shape, LlamaConfig) or not shape.tied:
            yield Operator(1, 0, size * (self._tokens_known * shape.width + rows))
        if isinstance(shape, GPTConfig):
            positions = self.sequence * shape.width
            yield Operator(1, 0, size * (rows + positions))
            yield Operator(1, 0, size * 2 * positions)

    def _kept(self, elements: int) -> Operator:
        """New gradients are put where they are kept: read, and the place both read and written."""
        return Operator(1, 0, 3 * self.element_bytes * elements)


def update_operators(elements: int, rows: int = 1, element_bytes: int = 2) -> tuple[Operator, ...]:
    """What Adam does with some rows of parameters in mixed precision, as the engine asks for it.

    Row by row to fp32, the loss scale off, and the new parameters; all rows at once the fused step
    with master, momentum, variance and gradient: 38 bytes for each parameter in bf16.

    Args:
        elements: of a row.
    """
    if not elements:
        return ()
    row_by_row = (_FP32 + element_bytes, 2 * _FP32, _FP32 + 2 * element_bytes)
    found = [Operator(rows, 0, each * elements) for each in row_by_row]
    return (*found, Operator(1, 0, 4 * _FP32 * rows * elements))


def quantized_operators(elements: int, element_bytes: int = 2) -> tuple[Operator, ...]:
    """What a unit takes to be made of fewer bits, or these of it: both are touched once.

    A bound (ZeRO++, arXiv 2306.10209, section 3, fuses it with what is beside): 3 bytes for each
    parameter in bf16, for int8 and for int4, whose halves are read twice.
    """
    return (Operator(1, 0, (element_bytes + 1) * elements),)


def model_flops(shape: Transformer, tokens: int, sequence: int) -> int:
    """FLOPs that a step needs, whatever it computes again: (6 Psi + 12 L h s) for each token.

    Source: A. Chowdhery et al., "PaLM" (arXiv 2204.02311), appendix B: model FLOPs utilization.
    """
    attention = 12 * shape.layers * shape.width * sequence
    return tokens * (6 * shape.num_parameters + attention)
