"""Block-wise quantization: rows of numbers as int8 or int4, with an fp32 scale for each block.

A block is a number of consecutive elements of a row; the last one of a row may be shorter. Its
scale is max|x| / 127, or / 7, and an element is rounded to the nearest multiple of it, ties to
even: the error is at most half a scale. The quantization is symmetric: there is no zero point, and
0 stays 0.

    a packed row     values, then scales
    int8 values      a byte each
    int4 values      half a byte each: a block's first half in the low bits, its second in the
                     high bits

Non-finite elements survive: they make the scale of their block inf or nan, and then every element
of the block, so that an overflow is still detected.

No Python loop runs over blocks. The work is split into pieces that stay in the processor's cache
during several passes.

Source: G. Wang et al., "ZeRO++" (arXiv 2306.10209), sections 3.1 and 3.3; blocks and scales as in
T. Dettmers et al., "8-bit Optimizers via Block-wise Quantization" (arXiv 2110.02861), section 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import torch

from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold, release

_SCALE_BYTES = 4
_PIECE_ELEMENTS = 1 << 18
"""Elements processed at once in scratch memory: 1 MiB. With fewer, Python's overhead per piece is
noticeable; with more, they leave the cache."""
_SAMPLE_ELEMENTS = 1 << 15
"""For a larger matrix, the error is sampled on some blocks with about this many elements."""


class Bits(IntEnum):
    """The bits of an element."""

    INT4 = 4
    INT8 = 8

    @property
    def dtype_name(self) -> str:
        """The name of such elements in events."""
        return f"int{self.value}"

    @property
    def largest(self) -> int:
        """The largest absolute value: 7 or 127."""
        return int(2 ** (self.value - 1) - 1)

    def value_bytes(self, elements: int) -> int:
        """Bytes of consecutive elements."""
        return -(-elements * self.value // 8)


@dataclass(frozen=True, slots=True)
class Packing:
    """The packing of rows of one length.

    Attributes:
        columns: elements of a row, 0 or more.
        block: elements that share a scale, even.
    """

    bits: Bits
    columns: int
    block: int

    @property
    def num_blocks(self) -> int:
        """Number of scales per row."""
        return -(-self.columns // self.block)

    @property
    def value_bytes(self) -> int:
        """Bytes of a row's values."""
        return self.bits.value_bytes(self.columns)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's values and scales."""
        return self.value_bytes + _SCALE_BYTES * self.num_blocks


class Error:
    """The accumulated error of quantized elements.

    Attributes:
        sums: squares of the errors, and of the elements; fp64, shape (2,).
    """

    def __init__(self, device: torch.device) -> None:
        """Create a counter without errors."""
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, exact: torch.Tensor, found: torch.Tensor) -> None:
        """Add up squares.

        Args:
            exact: the original elements.
            found: the quantized elements, fp32, of the same shape.
        """
        exact = exact.float()
        off = torch.linalg.vector_norm(found - exact).double()
        size = torch.linalg.vector_norm(exact).double()
        self.sums += torch.stack([off * off, size * size])

    def take(self) -> float | None:
        """The root mean square of the errors divided by that of the elements; resets the counter.

        Returns:
            None if only zeros were quantized, or a value was not finite.
        """
        error, whole = self.sums.tolist()
        self.sums.zero_()
        found = math.sqrt(error / whole) if whole > 0 else math.nan
        return found if math.isfinite(found) else None


@dataclass(frozen=True, slots=True)
class _Piece:
    """Blocks of equal length in some rows.

    Attributes:
        elements: its columns in the row.
        values: its bytes in the packed row.
        blocks: the indices of its scales.
        length: elements per block.
    """

    rows: slice
    elements: slice
    values: slice
    blocks: slice
    length: int


class Quantizer:
    """Quantizes with its own scratch memory; not thread-safe."""

    def __init__(
        self, bits: Bits, block: int, num_rows: int, columns: int, device: torch.device
    ) -> None:
        """Allocate scratch memory.

        Args:
            block: elements that share a scale, an even number.
            num_rows, columns: size of the largest matrix.
        """
        self._bits = bits
        self._block = block
        self._top_scale = _top_scale(bits)
        row = columns + columns % 2
        self._room = max(min(block, row), min(_PIECE_ELEMENTS, num_rows * row))
        self._scratch = torch.empty(self._room, dtype=torch.float32, device=device)
        nibbles = self._room // 2 if bits is Bits.INT4 else 0
        self._nibbles = torch.empty(nibbles, dtype=torch.int8, device=device)
        for tensor in (self._scratch, self._nibbles):
            hold(tensor, Role.BUFFERS, "")

    def release(self) -> None:
        """Release the scratch memory."""
        release(self._scratch)
        release(self._nibbles)

    def packing(self, columns: int) -> Packing:
        """The packing of rows of this length."""
        return Packing(self._bits, columns, self._block)

    def quantize(
        self, source: torch.Tensor, packed: torch.Tensor, error: Error | None = None
    ) -> None:
        """Pack rows.

        Args:
            source: (M, columns), floating point; rows are contiguous.
            packed: (M, row bytes), uint8; rows are contiguous.
            error: accumulates the errors; None if not needed. A large matrix is sampled at each
                n-th block.
        """
        packing = self.packing(source.shape[1])
        values = packed[:, : packing.value_bytes].view(torch.int8)
        scales = source.new_empty(len(source), packing.num_blocks, dtype=torch.float32)
        every = max(1, source.numel() // _SAMPLE_ELEMENTS)
        for piece in self._pieces(len(source), packing):
            elements = _blocks(source, piece.rows, piece.elements, piece.length)
            place = _blocks(values, piece.rows, piece.values, self._bits.value_bytes(piece.length))
            scale = scales[piece.rows, piece.blocks].unsqueeze(2)
            whole = self._part(elements.shape)
            work = whole[..., : piece.length]
            exact = elements
            if source.dtype != torch.float32:
                exact = work.copy_(elements)
            largest, smallest = exact.amax(2, keepdim=True), exact.amin(2, keepdim=True)
            torch.maximum(largest, smallest.neg_(), out=scale)
            # at least the smallest normal number, the divisor of a block of zeros
            scale.div_(self._bits.largest).clamp_(min=torch.finfo(torch.float32).tiny)
            # rounded to fp32, `largest` times the scale of the largest numbers can be inf
            scale.copy_(torch.where(scale.isfinite(), scale.clamp(max=self._top_scale), scale))
            torch.div(exact, scale, out=work)
            work.round_()
            if error is not None:
                error.add(elements[:, ::every], work[:, ::every] * scale[:, ::every])
            self._put(whole, piece.length, place)
        packed[:, packing.value_bytes :].copy_(scales.view(torch.uint8))

    def dequantize(self, packed: torch.Tensor, target: torch.Tensor, *, adds: bool = False) -> None:
        """Unpack rows.

        Args:
            packed: (M, row bytes), uint8, as `quantize` made it.
            target: (M, columns), floating point; rows are contiguous.
            adds: add to the target instead of replacing it.
        """
        packing = self.packing(target.shape[1])
        values = packed[:, : packing.value_bytes].view(torch.int8)
        # a copy, because a row's scales need not be aligned for fp32
        scales = target.new_empty(len(target), packing.num_blocks, dtype=torch.float32)
        scales.view(torch.uint8).copy_(packed[:, packing.value_bytes :])
        for piece in self._pieces(len(target), packing):
            elements = _blocks(target, piece.rows, piece.elements, piece.length)
            place = _blocks(values, piece.rows, piece.values, self._bits.value_bytes(piece.length))
            whole = self._part(elements.shape)
            self._get(place, whole)
            work = whole[..., : piece.length].mul_(scales[piece.rows, piece.blocks].unsqueeze(2))
            if adds:
                elements.add_(work)
            else:
                elements.copy_(work)

    def _put(self, whole: torch.Tensor, length: int, place: torch.Tensor) -> None:
        """Store integers; for int4 there is one more than `length` if that is odd.

        The contents of `whole` are overwritten.
        """
        if self._bits is Bits.INT8:
            place.copy_(whole)
            return
        whole[..., length:].zero_()
        half = place.shape[2]
        # first + 8 is 1 to 15: with 16 * second it is a byte
        place.copy_(whole[..., :half].add_(whole[..., half:], alpha=16)).add_(8)

    def _get(self, place: torch.Tensor, whole: torch.Tensor) -> None:
        """The whole numbers that `_put` stored."""
        if self._bits is Bits.INT8:
            whole.copy_(place)
            return
        half = place.shape[2]
        nibbles = self._nibbles[: place.numel()].view(place.shape)
        torch.bitwise_and(place, 15, out=nibbles)
        whole[..., :half].copy_(nibbles.sub_(8))
        torch.bitwise_right_shift(place, 4, out=nibbles)
        whole[..., half:].copy_(nibbles)

    def _part(self, shape: torch.Size) -> torch.Tensor:
        """Scratch for blocks of this shape; with int4, an even number of elements each."""
        rows, blocks, length = shape
        if self._bits is Bits.INT4:
            length += length % 2
        return self._scratch[: rows * blocks * length].view(rows, blocks, length)

    def _pieces(self, num_rows: int, packing: Packing) -> Iterator[_Piece]:
        """Split rows to the size of the scratch memory: whole blocks first, then the short ones."""
        whole = packing.columns // packing.block
        rest = packing.columns % packing.block
        for first, last, length in ((0, whole, packing.block), (whole, whole + bool(rest), rest)):
            if first == last or num_rows == 0:
                continue
            room = self._room // (length + length % 2)
            blocks_at_once = min(last - first, room)
            rows_at_once = room // blocks_at_once
            for row in range(0, num_rows, rows_at_once):
                for block in range(first, last, blocks_at_once):
                    stop = min(last, block + blocks_at_once)
                    begin = block * packing.block
                    end = begin + (stop - block) * length
                    yield _Piece(
                        rows=slice(row, min(num_rows, row + rows_at_once)),
                        elements=slice(begin, end),
                        values=slice(self._bits.value_bytes(begin), self._bits.value_bytes(end)),
                        blocks=slice(block, stop),
                        length=length,
                    )


def _top_scale(bits: Bits) -> float:
    """The largest fp32 scale whose product with the largest integer is finite in fp32."""
    most = torch.finfo(torch.float32).max
    scale = torch.tensor(most) / bits.largest
    if not (scale * bits.largest).isfinite():
        scale = scale.nextafter(torch.zeros(()))
    return scale.item()


def _blocks(matrix: torch.Tensor, rows: slice, columns: slice, length: int) -> torch.Tensor:
    """Blocks of some rows, shape (rows, blocks, length)."""
    part = matrix[rows, columns]
    blocks: torch.Tensor = part.unflatten(1, (part.shape[1] // length, length))
    return blocks
