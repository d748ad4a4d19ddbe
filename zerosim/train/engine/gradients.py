"""The first of a stage's two policies: the reduction of gradients.

    AllReduce                  in the last micro-step of an accumulation (at the boundary), every
                               rank gets the sum of all rows
    ReduceScatterAtBoundary    in the last micro-step a rank gets the sum of its own row
    ReduceAtOnce               in every micro-step a rank gets the sum of its own row, or the unit's
                               owner gets the sum of all rows, and the complete gradient is freed,
                               so it cannot be accumulated

Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5.1, 5.2 and 7.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from zerosim.schema.manifest import BucketLayout, Segment
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.host_rows import HostRows
from zerosim.train.engine.reduced_rows import DeviceRows, InPlaceRows, OwnedRows, ReducedRows
from zerosim.train.engine.reducer import GradientReducer, Reduce
from zerosim.train.engine.zeropp import QuantizedReduction


def _each(collective: Callable[[torch.Tensor], Handle]) -> Reduce:
    """One collective for every bucket."""
    return lambda matrix, _: collective(matrix)


def _to_owner(context: Context) -> Reduce:
    """A reduction to the owner of the bucket's unit: with owners a bucket is one whole unit."""
    owners = {flat.name: context.owner(flat) for flat in context.units}

    def reduce(matrix: torch.Tensor, bucket: BucketLayout) -> Handle:
        return context.collectives.reduce(matrix, owners[bucket.segments[0].unit])

    return reduce


class Gradients:
    """Reduces the buckets of the backward pass at the boundary.

    Until then, each rank accumulates its local gradients.
    """

    def __init__(
        self, context: Context, reduce: Reduce, kept: ReducedRows, in_flight: int | None = None
    ) -> None:
        """Create the policy for the gradients of all units.

        Args:
            reduce: the collective.
            kept: storage of the reduced rows until the update.
            in_flight: maximum number of buckets in flight; by default all.
        """
        self._communicates = context.communicates
        self._kept = kept
        self._reducer = GradientReducer(
            context,
            reduce,
            self._reduced,
            in_flight=in_flight or len(context.buckets),
            before_reuse=kept.settle,
        )

    def rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The updated rows of a unit's gradient, reduced over all ranks."""
        return self._kept.rows(flat)

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """A trainable unit's gradient is complete on this rank."""
        if last_micro_step:
            self._reduce(flat)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Wait for the buckets in flight."""
        if last_micro_step and self._communicates:
            self._reducer.finish()

    def finish_update(self) -> None:
        """The update has used the reduced rows."""
        self._kept.free()

    def release(self) -> None:
        """The engine is closed."""
        self._kept.release()

    def _reduce(self, flat: FlatUnit) -> None:
        if self._communicates:
            self._reducer.ready(flat)
        else:  # a single rank sends nothing, and the sum is its own gradient
            assert flat.gradient is not None
            self._reduced(flat, flat.all_columns, flat.gradient)

    def _reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        self._kept.begin(flat)
        self._kept.take(flat, segment, matrix, adds=False)


class AllReduce(Gradients):
    """Every rank gets the sum of all rows."""

    def __init__(self, context: Context) -> None:
        """Create the policy for the gradients of all units."""
        super().__init__(context, _each(context.collectives.all_reduce), InPlaceRows(context))


class ReduceScatterAtBoundary(Gradients):
    """A rank gets the sum of its own row; its other rows are its local gradient."""

    def __init__(self, context: Context) -> None:
        """Create the policy for the gradients of all units."""
        kept = HostRows if context.config.offloads_optimizer else InPlaceRows
        super().__init__(context, _each(context.collectives.reduce_scatter), kept(context))


class ReduceAtOnce(Gradients):
    """Reduces a bucket as soon as backward completes it, and frees its inputs.

    The complete gradient of a unit is freed when its last piece is reduced, unless its owner keeps
    it; one bucket is in flight while the next is computed. Micro-steps accumulate in this rank's
    row, or in all rows on the owner.
    """

    def __init__(self, context: Context) -> None:
        """Create the policy for the gradients of all units."""
        kept: ReducedRows = DeviceRows()
        self._quantized: QuantizedReduction | None = None
        reduce = _each(context.collectives.reduce_scatter)
        if context.config.owners_update:
            kept, reduce = OwnedRows(context), _to_owner(context)
        elif context.config.offloads_optimizer:
            kept = HostRows(context)
        if context.config.quantize_gradients:
            self._quantized = QuantizedReduction(context)
            reduce = _each(self._quantized.reduce)
        super().__init__(context, reduce, kept, in_flight=1)
        self._missing: dict[str, int] = {}
        self._accumulates: set[str] = set()

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """Gradients are reduced in every micro-step."""
        self._missing[flat.name] = flat.unit.columns
        self._kept.begin(flat)
        self._reduce(flat)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Wait for the buckets in flight; the next micro-step adds to the result."""
        if self._communicates:
            self._reducer.finish()
        self._kept.settle()
        self._accumulates = set() if last_micro_step else set(self._missing)

    def finish_update(self) -> None:
        """The update has used the reduced rows."""
        super().finish_update()
        if self._quantized is not None:
            self._quantized.update_is_over()

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        if self._quantized is not None:
            self._quantized.release()

    def _reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        self._kept.take(flat, segment, matrix, adds=flat.name in self._accumulates)
        self._missing[flat.name] -= segment.stop - segment.start
        if self._missing[flat.name] == 0:
            flat.free_gradient()
