"""The operators of a transformer's units: floating-point operations and bytes of each.

The operators are PyTorch's for `zerosim.train.models`, each with its floating-point operations (a
multiplication and an addition are two) and with the bytes of its tensors, each touched once; a test
compares them with the counts of a dry run. Small vectors shared by all tokens (a norm's weight, the
angles of rotary positions) are omitted.

Sources: D. Narayanan et al. 2021 (arXiv 2104.04473), appendix: 24 B s h^2 + 4 B s^2 h FLOPs of a
GPT's block in forward, twice that in backward; M. Shoeybi et al., "Megatron-LM" (arXiv 1909.08053),
section 3; V. Korthikanti et al. (arXiv 2205.05198), section 4.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from zerosim.base.config.blocks import BlockShape, Matrix, MatrixCut
from zerosim.base.config.shapes import Transformer, parameters_of
from zerosim.theory.transformer import BLOCKS, EMBEDDING, HEAD, WHOLE, LayerCut, kinds_of, pieces

_FP32 = 4
_BACKWARD_OF_ATTENTION = 2.5
"""Five matrix products instead of the two of forward: scores are recomputed (Dao et al. 2022)."""


@dataclass(frozen=True, slots=True)
class Operator:
    """The work of one operator, and its number of calls.

    Attributes:
        flops, touched_bytes: of one call.
        is_narrow: whether it multiplies 8-bit numbers.
    """

    calls: int
    flops: int
    touched_bytes: int
    is_narrow: bool = False


@dataclass(frozen=True, slots=True)
class Computing:
    """The operators of one micro-batch on one rank.

    Attributes:
        batch: b, sequences of a micro-batch.
        sequence: s, tokens of a sequence.
        element_bytes: bytes of an element of the compute dtype.
        has_scores: whether attention writes the scores of all pairs of tokens to memory.
        has_dropout: whether there is dropout on these scores, and after attention and the MLP.
        is_float8: whether matrix products of blocks are 8-bit; their inputs are cast first.
    """

    shape: Transformer
    batch: int
    sequence: int
    cut: LayerCut = WHOLE
    element_bytes: int = 2
    has_scores: bool = False
    has_dropout: bool = False
    is_float8: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch on a rank: b s, or 1/c of it."""
        return self.batch * self.sequence // self.cut.context

    @property
    def between_elements(self) -> int:
        """Elements of the activations between two blocks on a rank: b s h, or 1/T of it."""
        return self.tokens * self.shape.width // self.cut.between

    def forward(self, name: str) -> tuple[Operator, ...]:
        """Operators of one unit in forward."""
        return tuple(self._forward(name))

    def backward(self, name: str) -> tuple[Operator, ...]:
        """Operators of one unit in backward, without recomputation."""
        return tuple(self._backward(name))

    def _forward(self, name: str) -> Iterator[Operator]:
        if name == EMBEDDING:
            yield from self._look_up()
        elif name in BLOCKS:
            block = kinds_of(self.shape)[name]
            yield from self._norm(block, block.norms)
            yield from self._products(block, 1)
            yield from self.attention(name)
            yield from self._block_elementwise(block)
        elif name == HEAD:
            yield from self._norm(self._last, 1)
            yield self._product(1, self.shape.width, self._tokens_known)

    def _backward(self, name: str) -> Iterator[Operator]:
        if name == EMBEDDING:
            yield from self._look_up_backward()
            yield self._kept(self._embedding_elements)
        elif name in BLOCKS:
            block = kinds_of(self.shape)[name]
            yield from self._norm_backward(block, first=True)
            for _ in range(block.norms - 1):
                yield from self._norm_backward(block, first=False)
            yield from self._products(block, 2)
            yield from self._attention_backward(block)
            yield from self._block_elementwise_backward(block)
            shared = block.expert_elements(self.cut.tensor)
            idle = shared - shared // self.cut.experts
            yield self._kept(block.elements(self.cut.tensor) - idle)
        elif name == HEAD:
            yield from self._norm_backward(self._last, first=True)
            yield self._product(2, self.shape.width, self._tokens_known)
            tied = self.shape.ends.tied
            yield self._kept(0 if tied else self.shape.width * self._tokens_known)

    # ------------------------------------------------------------------- operators of the parts

    @property
    def _tokens_known(self) -> int:
        return -(-self.shape.vocabulary // self.cut.of_ends)

    @property
    def _last(self) -> BlockShape:
        """A block whose norms are like the model's last norm."""
        return self.shape.blocks[0]

    @property
    def _embedding_elements(self) -> int:
        return next(one.elements for one in pieces(self.shape, self.cut) if one.name == EMBEDDING)

    def _product(self, calls: int, inputs: int, outputs: int, rows: int | None = None) -> Operator:
        """A matrix product: all tokens of `inputs` elements each become `outputs`."""
        rows, size = self.tokens if rows is None else rows, self.element_bytes
        touched = size * (rows * inputs + inputs * outputs + rows * outputs)
        return Operator(calls, 2 * rows * inputs * outputs, touched)

    def _products(self, block: BlockShape, calls: int) -> Iterator[Operator]:
        """Matrix products of a block: once in forward, twice in backward."""
        for one in block.matrices:
            found = self._by(one, calls)
            if self.is_float8:
                yield from self._narrow(found, one)
            else:
                yield found
        if block.experts:
            count, active = block.experts.count // self.cut.experts, block.experts.active
            rows = max(1, self.tokens * active // count)  # tokens are balanced among experts
            for one in block.experts.matrices:
                yield self._by(one, calls * count, rows)

    def _narrow(self, found: Operator, one: Matrix) -> Iterator[Operator]:
        """The 8-bit product, with half of the bytes, and the scaling and casting of its inputs."""
        inputs = one.inputs // (self.cut.tensor if one.cut is MatrixCut.ROWS else 1)
        yield replace(found, touched_bytes=found.touched_bytes // 2, is_narrow=True)
        size = 2 * self.element_bytes + 1
        yield Operator(
            found.calls,
            0,
            size * (self.tokens * inputs + one.inputs * one.outputs // self.cut.tensor),
        )

    def _by(self, one: Matrix, calls: int, rows: int | None = None) -> Operator:
        parts = self.cut.tensor
        inputs = one.inputs // (parts if one.cut is MatrixCut.ROWS else 1)
        outputs = one.outputs // (parts if one.cut is MatrixCut.COLUMNS else 1)
        return self._product(calls * one.count, inputs, outputs, rows)

    def attention(self, name: str) -> tuple[Operator, ...]:
        """The part of a block's forward that selective recomputation repeats."""
        block = kinds_of(self.shape)[name]
        if self.has_scores:
            return tuple(self._scores(block, 1))
        return (self._attention(block, 1, 4),)

    def _attention_backward(self, block: BlockShape) -> Iterator[Operator]:
        if self.has_scores:
            yield from self._scores(block, 2)
        else:
            yield self._attention(block, _BACKWARD_OF_ATTENTION, 8)

    def _scores(self, block: BlockShape, calls: int) -> Iterator[Operator]:
        """Matrix products that store scores, their softmax and dropout, as separate operators."""
        parts, size = self.cut.tensor, self.element_bytes
        pairs = int(self.tokens * block.attended(self.sequence))
        scores = pairs * block.heads // parts
        for read, other in ((block.queries, block.keys), (block.mixed, block.values)):
            beside = self.tokens * (read + other) // parts
            yield Operator(calls, 2 * pairs * read // parts, size * (scores + beside))
        yield Operator(1, 0, (calls + 1) * size * scores)
        if self.has_dropout:
            yield Operator(1, 0, (2 * size + 1) * scores)

    def _attention(self, block: BlockShape, times: float, passes: int) -> Operator:
        """Scores and their product with the values, without storing scores: 4 b s^2 h FLOPs."""
        parts = self.cut.tensor
        pairs = int(self.tokens * block.attended(self.sequence))
        flops = 2 * pairs * (block.queries + block.mixed) // parts
        queries, keys = block.queries + block.mixed, block.keys + block.values
        half = passes // 2
        touched = self.element_bytes * self.tokens * half * (queries // parts + keys // parts) // 2
        statistics = _FP32 * self.tokens * block.heads // parts
        return Operator(1, int(times * flops), touched + statistics)

    def _each(self, calls: int, passes: int, width: int, parts: int) -> Operator:
        """An operator that reads and writes `passes` bytes per element of tokens of this width."""
        return Operator(calls, 0, passes * self.tokens * width // parts)

    def _norm(self, block: BlockShape, count: int) -> Iterator[Operator]:
        h, parts, size = self.shape.width, self.cut.between, self.element_bytes
        if block.has_fused_norms:
            yield self._each(count, 2 * size, h, parts)
            return
        yield self._each(2 * count, size + _FP32, h, parts)  # to fp32 and back
        yield self._each(3 * count, 2 * _FP32, h, parts)
        yield self._each(count, _FP32, h, parts)

    def _norm_backward(self, block: BlockShape, *, first: bool) -> Iterator[Operator]:
        """Operators of one norm; for a unit's first one, work before the unit's backward counts as
        done.

        In fp32 if PyTorch has no single operator for it, as for Llama's.
        """
        h, parts, size = self.shape.width, self.cut.between, self.element_bytes
        if block.has_fused_norms:
            yield self._each(1, 3 * size, h, parts)
            return
        copies, of_three, of_two, of_one = (1, 1, 1, 1) if first else (2, 4, 4, 3)
        yield self._each(copies, size + _FP32, h, parts)
        yield self._each(of_three, 3 * _FP32, h, parts)
        yield self._each(of_two, 2 * _FP32, h, parts)
        yield self._each(of_one, _FP32, h, parts)

    def _block_elementwise(self, block: BlockShape) -> Iterator[Operator]:
        size, parts = self.element_bytes, self.cut.tensor
        yield self._each(2, 3 * size, self.shape.width, self.cut.between)  # the block's input
        if block.has_rotary:
            for width in (block.queries, block.keys):
                yield from self._rotary(width)
            yield self._each(1, 2 * size, block.mixed, parts)
        yield self._each(1, 2 * size, block.active_inner, parts)
        if block.is_gated:
            yield self._each(1, 3 * size, block.active_inner, parts)
        if block.experts:  # tokens to their experts, and back
            yield self._each(2 * block.experts.active, 2 * size, self.shape.width, 1)

    def _block_elementwise_backward(self, block: BlockShape) -> Iterator[Operator]:
        size, parts, h = self.element_bytes, self.cut.tensor, self.shape.width
        yield self._each(2, 3 * size, h, self.cut.between)
        if not block.has_rotary:
            yield self._each(2, 6 * size, block.queries, parts)  # q, k and v side by side
            yield self._each(1, size, 3 * block.queries, parts)  # biases
            yield self._each(2, size, h, self.cut.between)
        else:
            yield self._each(2, 3 * size, h, self.cut.between)
            for width in (block.queries, block.keys):
                yield from self._rotary(width)
                yield self._each(1, size, width, parts)
                yield self._each(1, 2 * size, width, parts)
        if block.is_gated:
            yield self._each(3, 3 * size, block.active_inner, parts)
        else:
            yield self._each(1, 3 * size, block.active_inner, parts)
            yield self._each(1, size, block.active_inner, parts)
        if block.experts:
            yield self._each(4 * block.experts.active, 2 * size, h, 1)

    def _rotary(self, width: int) -> Iterator[Operator]:
        """Rotary embedding: halves times cosines and sines, their sums, and the concatenation."""
        size, parts = self.element_bytes, self.cut.tensor
        yield self._each(4, size, width, parts)
        yield self._each(2, 3 * size // 2, width, parts)
        yield self._each(1, 2 * size, width, parts)

    def _look_up(self) -> Iterator[Operator]:
        """The whole table counts as touched."""
        size, rows = self.element_bytes, self.between_elements
        shape = self.shape
        yield Operator(1, 0, size * (self._tokens_known * shape.width + rows))
        if shape.ends.positions:
            positions = self.sequence * shape.width
            yield Operator(1, 0, size * 2 * positions)
            yield Operator(1, 0, size * (2 * rows + positions))

    def _look_up_backward(self) -> Iterator[Operator]:
        """A tied table belongs to the root; the embedding then has at most its positions."""
        size, rows, shape = self.element_bytes, self.between_elements, self.shape
        if not shape.ends.tied:
            yield Operator(1, 0, size * (self._tokens_known * shape.width + rows))
        if shape.ends.positions:
            positions = self.sequence * shape.width
            yield Operator(1, 0, size * (rows + positions))
            yield Operator(1, 0, size * 2 * positions)

    def _kept(self, elements: int) -> Operator:
        """New gradients are added to their buffer: both are read, and the buffer is written."""
        return Operator(1, 0, 3 * self.element_bytes * elements)


def again_by_operators(computing: Computing, name: str) -> tuple[Operator, ...]:
    """The recomputation of a block in backward if every second product is kept (`Recompute`)."""
    kept = computing.attention(name)
    return tuple(_half(one) for one in computing.forward(name) if one not in kept)


def _half(one: Operator) -> Operator:
    """Half of equal products are recomputed; other operators are all recomputed."""
    if not one.flops:
        return one
    return replace(one, flops=one.flops // 2, touched_bytes=one.touched_bytes // 2)


def loss_operators(computing: Computing) -> tuple[Operator, ...]:
    """The loss on a rank's logits, forward and backward, all in fp32.

    The conversion to fp32, the log-probabilities, their gradient and the conversion back touch 6,
    8, 12 and 6 bytes for each token and each entry of the vocabulary. A dry run does not count this
    for a unit (zerosim.train.models).
    """
    size = computing.element_bytes + _FP32
    elements = computing.tokens * -(-computing.shape.vocabulary // computing.cut.of_ends)
    return tuple(Operator(1, 0, each * elements) for each in (size, 2 * _FP32, 3 * _FP32, size))


def update_operators(elements: int, rows: int = 1, element_bytes: int = 2) -> tuple[Operator, ...]:
    """Adam on rows of parameters in mixed precision, as called by the engine.

    Each row is converted to fp32, divided by the loss scale, and later copied to the parameters.
    The fused step updates master, momentum and variance of all rows at once. In bf16 this touches
    38 bytes a parameter.

    Args:
        elements: elements of a row.
    """
    if not elements:
        return ()
    row_by_row = (_FP32 + element_bytes, 2 * _FP32, _FP32 + 2 * element_bytes)
    found = [Operator(rows, 0, each * elements) for each in row_by_row]
    return (*found, Operator(1, 0, 4 * _FP32 * rows * elements))


def quantized_operators(elements: int, element_bytes: int = 2) -> tuple[Operator, ...]:
    """Quantization of a unit, or dequantization: both tensors are touched once.

    A bound (ZeRO++, arXiv 2306.10209, section 3, fuses it with neighbouring operators): 3 bytes per
    parameter in bf16, for int8 and for int4, whose halves are read twice.
    """
    return (Operator(1, 0, (element_bytes + 1) * elements),)


def model_flops(shape: Transformer, tokens: int, sequence: int) -> int:
    """FLOPs that a step needs without recomputation: (6 Psi + 12 L h s) for each token.

    Psi counts the parameters applied to a token: of the experts, only the active ones.
    Sliding-window attention counts its window.

    Source: A. Chowdhery et al., "PaLM" (arXiv 2204.02311), appendix B: model FLOPs utilization.
    """
    attention = sum(
        6 * block.layers * (block.queries + block.mixed) * block.attended(sequence)
        for block in shape.blocks
    )
    return tokens * (6 * parameters_of(shape, active=True) + int(attention))
