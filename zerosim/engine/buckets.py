"""What is reduced in one collective: pieces of units, in the order in which backward makes them.

A bucket takes the same columns of every row, so that each element keeps its owner, and the order
in which a ring adds it, however the units are cut.
Imports torch, zerosim's L0, collectives, trace.labels and trace.holdings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from zerosim.collectives import Handle
from zerosim.config import EngineConfig
from zerosim.engine.flat import FlatUnit
from zerosim.events import Purpose
from zerosim.manifest import BucketLayout, Segment
from zerosim.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold

Reduce = Callable[[torch.Tensor], Handle]


def plan_buckets(
    units: Sequence[FlatUnit], num_ranks: int, bucket_elements: int | None
) -> list[BucketLayout]:
    """Cut and merge units, last first, into buckets of at most `bucket_elements`.

    Args:
        bucket_elements: elements of all rows together; None for one bucket a unit.
    """
    sizes = [(flat.name, flat.unit.columns) for flat in reversed(units) if flat.unit.trainable]
    if bucket_elements is None:
        pieces = [[Segment(unit=name, start=0, stop=columns)] for name, columns in sizes]
    else:
        pieces = _fill(sizes, max(1, bucket_elements // num_ranks))
    whole = dict(sizes)
    return [
        BucketLayout(name=_bucket_name(index, piece, whole), segments=tuple(piece))
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


def _bucket_name(index: int, piece: Sequence[Segment], whole: dict[str, int]) -> str:
    first = piece[0]
    if len(piece) == 1 and first.stop - first.start == whole[first.unit]:
        return first.unit
    return f"bucket {index}"


@dataclass(slots=True)
class _Flight:
    """A bucket on its way: its matrix, and the units whose columns it holds."""

    bucket: BucketLayout
    matrix: torch.Tensor
    handle: Handle
    is_buffered: bool


_NUM_BUFFERS = 2
"""One is on its way while the next is filled."""


class ConstantBuffers:
    """Memory for buckets of several pieces, of a size that no model makes larger.

    Source: ZeRO-R's C_B (Rajbhandari et al. 2020, arXiv 1910.02054, section 6.2): a buffer fused of
    all gradients is as large as the model.
    """

    def __init__(self, num_ranks: int, bucket_elements: int, some: FlatUnit) -> None:
        """Allocate two buffers.

        Args:
            bucket_elements: of all rows together; each gets as many whole columns as that holds.
            some: a unit of the dtype and on the device of all.
        """
        columns = max(1, bucket_elements // num_ranks)
        self._num_ranks = num_ranks
        self._buffers = [some.flat.new_empty(num_ranks * columns) for _ in range(_NUM_BUFFERS)]
        self._filled = 0
        for buffer in self._buffers:
            hold(buffer, Role.BUFFERS, "")

    def fill(self, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        """Copy pieces of N rows beside each other into the buffer that was filled longest ago."""
        columns = sum(piece.shape[1] for piece in pieces)
        buffer = self._buffers[self._filled % _NUM_BUFFERS]
        self._filled += 1
        matrix = buffer[: self._num_ranks * columns].view(self._num_ranks, columns)
        return torch.cat(list(pieces), dim=1, out=matrix)


def make_buffers(config: EngineConfig, some: FlatUnit, num_ranks: int) -> ConstantBuffers | None:
    """The constant buffers, if they were asked for and something is sent."""
    if not config.constant_buffers or num_ranks == 1:
        return None
    assert config.bucket_elements is not None, "checked by the configuration"
    return ConstantBuffers(num_ranks, config.bucket_elements, some)


class GradientReducer:
    """Reduces buckets as their units' gradients become complete, always in the same order.

    At most `in_flight` buckets are on their way, so that what a stage frees is freed soon.
    """

    def __init__(
        self,
        buckets: Sequence[BucketLayout],
        units: Sequence[FlatUnit],
        reduce: Reduce,
        on_reduced: Callable[[FlatUnit, Segment, torch.Tensor], None],
        in_flight: int,
        *,
        buffers: ConstantBuffers | None = None,
        before_reuse: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare to reduce.

        Args:
            reduce: the collective: all-reduce or reduce-scatter.
            on_reduced: told of each segment when it is reduced, with its (N, columns) matrix.
            in_flight: buckets that may be on their way at once.
            buffers: what buckets of several pieces go through; None for fresh memory each time.
            before_reuse: nothing may read an earlier bucket any more when it returns.
        """
        self._buckets = buckets
        self._units = {flat.name: flat for flat in units}
        self._reduce = reduce
        self._on_reduced = on_reduced
        self._in_flight = in_flight
        self._buffers = buffers
        self._before_reuse = before_reuse
        self._ready: set[str] = set()
        self._next = 0
        self._flights: list[_Flight] = []

    def ready(self, flat: FlatUnit) -> None:
        """A unit's gradient is complete: start each bucket whose turn has come."""
        self._ready.add(flat.name)
        while self._next < len(self._buckets):
            bucket = self._buckets[self._next]
            if any(segment.unit not in self._ready for segment in bucket.segments):
                return
            self._next += 1
            while len(self._flights) >= self._in_flight:
                self._land(self._flights.pop(0))
            self._start(bucket)

    def finish(self) -> None:
        """Wait for the buckets on their way; all must have been started."""
        assert self._next == len(self._buckets), "a unit's gradient was never completed"
        while self._flights:
            self._land(self._flights.pop(0))
        self._next = 0
        self._ready.clear()

    def _start(self, bucket: BucketLayout) -> None:
        pieces = [self._piece(segment) for segment in bucket.segments]
        matrix = pieces[0] if len(pieces) == 1 else self._fuse(bucket, pieces)
        names = tuple(
            f"{segment.unit}[:, {segment.start}:{segment.stop}]" for segment in bucket.segments
        )
        with labels.scope(unit=bucket.name, purpose=Purpose.REDUCE_GRADIENTS, tensors=names):
            handle = self._reduce(matrix)
        self._flights.append(_Flight(bucket, matrix, handle, is_buffered=len(pieces) > 1))

    def _fuse(self, bucket: BucketLayout, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        if self._buffers is None:
            matrix = torch.cat(list(pieces), dim=1)
            hold(matrix, Role.BUFFERS, bucket.name)
            return matrix
        while sum(flight.is_buffered for flight in self._flights) >= _NUM_BUFFERS:
            self._land(self._flights.pop(0))
        self._before_reuse()
        return self._buffers.fill(pieces)

    def _land(self, flight: _Flight) -> None:
        flight.handle.wait()
        column = 0
        for segment in flight.bucket.segments:
            width = segment.stop - segment.start
            flat = self._units[segment.unit]
            self._on_reduced(flat, segment, flight.matrix[:, column : column + width])
            column += width

    def _piece(self, segment: Segment) -> torch.Tensor:
        gradient = self._units[segment.unit].gradient
        assert gradient is not None, f"{segment.unit} has no gradient"
        return gradient[:, segment.start : segment.stop]


def keep_in_place(flat: FlatUnit, segment: Segment, matrix: torch.Tensor, rows: slice) -> None:
    """Copy reduced rows back to the unit's gradient, unless they are there already."""
    gradient = flat.gradient
    assert gradient is not None, f"{flat.name} has no gradient"
    place = gradient[rows, segment.start : segment.stop]
    if place.data_ptr() != matrix[rows].data_ptr():
        place.copy_(matrix[rows])
