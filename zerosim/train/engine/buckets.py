"""Buckets: pieces of units reduced in one collective, in the order in which backward completes
them.

A bucket takes the same columns of every row, so each element keeps its owner and its order of
summation in a ring, whatever the division into buckets.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.base.config import EngineConfig
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold
from zerosim.train.engine.flat import FlatUnit


def plan_buckets(
    units: Sequence[FlatUnit], num_ranks: int, bucket_elements: int | None
) -> list[BucketLayout]:
    """Split and merge units, last first, into buckets of at most `bucket_elements`.

    Args:
        bucket_elements: elements of all rows together; None for one bucket per unit.
    """
    sizes = [(flat.name, flat.unit.columns) for flat in reversed(units) if flat.unit.trainable]
    if bucket_elements is None:
        pieces = [[Segment(unit=name, start=0, stop=columns)] for name, columns in sizes]
    else:
        pieces = _fill(sizes, max(1, bucket_elements // num_ranks))
    columns = dict(sizes)
    return [
        BucketLayout(name=_bucket_name(index, piece, columns), segments=tuple(piece))
        for index, piece in enumerate(pieces)
    ]


def _fill(sizes: Sequence[tuple[str, int]], capacity: int) -> list[list[Segment]]:
    pieces: list[list[Segment]] = []
    room = 0
    for name, columns in sizes:
        start = 0
        while start < columns:
            if room == 0:
                pieces.append([])
                room = capacity
            stop = min(columns, start + room)
            pieces[-1].append(Segment(unit=name, start=start, stop=stop))
            room -= stop - start
            start = stop
    return pieces


def _bucket_name(index: int, piece: Sequence[Segment], columns: dict[str, int]) -> str:
    first = piece[0]
    if len(piece) == 1 and first.stop - first.start == columns[first.unit]:
        return first.unit
    return f"bucket {index}"


NUM_BUFFERS = 2
"""One buffer is in flight while the next is filled."""


class ConstantBuffers:
    """Memory for buckets of several pieces, of a size independent of the model.

    Source: ZeRO-R's C_B (Rajbhandari et al. 2020, arXiv 1910.02054, section 6.2): a fused buffer of
    all gradients would be as large as the model.
    """

    def __init__(self, num_ranks: int, bucket_elements: int, some: FlatUnit) -> None:
        """Allocate two buffers.

        Args:
            bucket_elements: elements of all rows; each buffer has the whole columns that fit.
            some: any unit, for the common dtype and device.
        """
        columns = max(1, bucket_elements // num_ranks)
        self._num_ranks = num_ranks
        self._buffers = [some.flat.new_empty(num_ranks * columns) for _ in range(NUM_BUFFERS)]
        self._filled = 0
        for buffer in self._buffers:
            hold(buffer, Role.BUFFERS, "")

    def fill(self, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        """Copy pieces of N rows side by side into the least recently filled buffer."""
        columns = sum(piece.shape[1] for piece in pieces)
        buffer = self._buffers[self._filled % NUM_BUFFERS]
        self._filled += 1
        matrix = buffer[: self._num_ranks * columns].view(self._num_ranks, columns)
        return torch.cat(list(pieces), dim=1, out=matrix)


def make_buffers(config: EngineConfig, some: FlatUnit, num_ranks: int) -> ConstantBuffers | None:
    """The constant buffers, if configured and if anything is sent."""
    if not config.constant_buffers or num_ranks == 1:
        return None
    assert config.bucket_elements is not None, "checked by the configuration"
    return ConstantBuffers(num_ranks, config.bucket_elements, some)
