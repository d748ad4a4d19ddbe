"""The buckets in flight of a backward pass, in the order in which backward completes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from zerosim.schema.events import Purpose
from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.train.collectives import Handle
from zerosim.train.engine.buckets import NUM_BUFFERS
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit

Reduce = Callable[[torch.Tensor, BucketLayout], Handle]
"""A collective on a bucket's matrix."""


@dataclass(slots=True)
class _InFlight:
    """A bucket in flight: its matrix, and the units of its columns."""

    bucket: BucketLayout
    matrix: torch.Tensor
    handle: Handle
    is_buffered: bool


class GradientReducer:
    """Reduces buckets as their units' gradients become complete, always in the same order.

    At most `in_flight` buckets are in flight, so that a stage frees memory early.
    """

    def __init__(
        self,
        context: Context,
        reduce: Reduce,
        on_reduced: Callable[[FlatUnit, Segment, torch.Tensor], None],
        *,
        in_flight: int,
        before_reuse: Callable[[], None],
    ) -> None:
        """Create a reducer.

        Args:
            reduce: the collective: all-reduce, reduce-scatter, or a reduction to an owner.
            on_reduced: called with each reduced segment and its (N, columns) matrix.
            in_flight: maximum number of buckets in flight.
            before_reuse: a function that returns once nothing reads an earlier bucket.
        """
        self._buckets = context.buckets
        self._units = {flat.name: flat for flat in context.units}
        self._reduce = reduce
        self._on_reduced = on_reduced
        self._in_flight = in_flight
        self._buffers = context.buffers
        self._before_reuse = before_reuse
        self._ready: set[str] = set()
        self._next = 0
        self._flights: list[_InFlight] = []

    def ready(self, flat: FlatUnit) -> None:
        """A unit's gradient is complete: start each bucket that is next in order."""
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
        """Wait for the buckets in flight; all must have been started."""
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
            handle = self._reduce(matrix, bucket)
        self._flights.append(_InFlight(bucket, matrix, handle, is_buffered=len(pieces) > 1))

    def _fuse(self, bucket: BucketLayout, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        if self._buffers is None:
            matrix = torch.cat(list(pieces), dim=1)
            hold(matrix, Role.BUFFERS, bucket.name)
            return matrix
        while sum(flight.is_buffered for flight in self._flights) >= NUM_BUFFERS:
            self._land(self._flights.pop(0))
        self._before_reuse()
        return self._buffers.fill(pieces)

    def _land(self, flight: _InFlight) -> None:
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
