"""Stage 2, ZeRO-2: gradients are partitioned as well (Rajbhandari et al. 2020, section 5.2).

    parameters  gradients  optimizer        a step sends, in Psi
    all         own row    own row          2   (G + 1 with G micro-steps: no rank could add up
                                                 whole gradients, because none keeps one)

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import torch

from zerosim.engine.buckets import GradientReducer, Reduce
from zerosim.engine.flat import FlatUnit
from zerosim.engine.gradients import make_rows
from zerosim.engine.stage import Context
from zerosim.engine.stage1 import OptimizerPartition
from zerosim.manifest import Segment


class PartitionedGradients:
    """Reduce-scatters a bucket as soon as backward has it, and keeps this rank's row of it.

    Stages 2 and 3 share it. The whole gradient of a unit is freed when its last piece is reduced;
    one bucket is on its way while the next is computed.
    """

    def __init__(self, context: Context, reduce: Reduce | None = None) -> None:
        """Take over the gradients of all units.

        Args:
            reduce: makes row r of rank r the sum of all ranks; a reduce-scatter by default.
        """
        self._context = context
        self._rank = context.rank
        self._missing: dict[str, int] = {}
        self._accumulates: set[str] = set()
        self._reduced_rows = make_rows(context)
        self._reducer = GradientReducer(
            context.buckets,
            context.units,
            reduce or context.collectives.reduce_scatter,
            self._reduced,
            in_flight=1,
            buffers=context.buffers,
            before_reuse=self._reduced_rows.settle,
        )
        self.rows = self._reduced_rows.rows
        self.free = self._reduced_rows.free
        self.let_go = self._reduced_rows.let_go

    def after_backward(self, flat: FlatUnit) -> None:
        """The unit's gradient is complete on this rank."""
        if not flat.unit.trainable:
            return
        self._missing[flat.name] = flat.unit.columns
        self._reduced_rows.begin(flat)
        if self._context.communicates:
            self._reducer.ready(flat)
        else:
            assert flat.gradient is not None
            self._reduced(flat, flat.whole_segment, flat.gradient)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Wait for the buckets on their way; the next micro-step adds to what is there."""
        if self._context.communicates:
            self._reducer.finish()
        self._reduced_rows.settle()
        self._accumulates = set() if last_micro_step else set(self._missing)

    def _reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        adds = flat.name in self._accumulates
        self._reduced_rows.take(flat, segment, matrix[self._rank], adds=adds)
        self._missing[flat.name] -= segment.stop - segment.start
        if self._missing[flat.name] == 0:
            flat.free_gradient()


class GradientPartition(OptimizerPartition):
    """Stage 1 whose gradients live only as this rank's rows."""

    def __init__(self, context: Context) -> None:
        """See `Stage`."""
        super().__init__(context)
        self._gradients = PartitionedGradients(context)

    def gradient_rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """This rank's row, all that it has."""
        return self._gradients.rows(flat)

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """In every micro-step: reduce-scatter, then free the whole gradient."""
        self._gradients.after_backward(flat)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Wait for the buckets on their way."""
        self._gradients.finish_backward(last_micro_step=last_micro_step)

    def finish_update(self) -> None:
        """The reduced rows have been used."""
        super().finish_update()
        self._gradients.free()

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        self._gradients.let_go()
