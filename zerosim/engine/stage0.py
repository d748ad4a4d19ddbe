"""Stage 0, data parallel: every rank holds everything, and gradients are all-reduced.

    parameters  gradients  optimizer        a step sends, in Psi
    all         all        all              2   (all-reduce = reduce-scatter + all-gather)

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import torch

from zerosim.collectives import Handle
from zerosim.engine.buckets import GradientReducer, keep_in_place
from zerosim.engine.flat import FlatUnit
from zerosim.engine.homes import EveryRow, Home
from zerosim.engine.stage import Context, Stage
from zerosim.manifest import Segment


class DataParallel(Stage):
    """All-reduces each bucket in the last micro-step, as soon as backward has completed it."""

    def __init__(self, context: Context) -> None:
        """See `Stage`."""
        super().__init__(context)
        self._reducer = GradientReducer(
            context.buckets,
            context.units,
            self.reduce,
            self.reduced,
            in_flight=len(context.buckets),
            buffers=context.buffers,
            before_reuse=self.before_reuse,
        )

    def updated_rows(self) -> tuple[int, ...]:
        """All of them: each rank does the whole update, and all do the same."""
        return tuple(range(self.context.num_ranks))

    def make_home(self) -> Home:
        """All rows, in their units."""
        return EveryRow(self.context)

    def reduce(self, bucket: torch.Tensor) -> Handle:
        """Every rank gets the sum of all rows."""
        return self.context.collectives.all_reduce(bucket)

    def reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        """A piece of a unit's gradient is reduced."""
        keep_in_place(flat, segment, matrix, slice(None))

    def before_reuse(self) -> None:
        """A buffer of an earlier bucket is about to be filled again: its pieces were kept."""

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """Gradients add up locally until the last micro-step; then they are reduced."""
        if flat.unit.trainable and last_micro_step and self.context.communicates:
            self._reducer.ready(flat)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Wait for the buckets on their way."""
        if last_micro_step and self.context.communicates:
            self._reducer.finish()
