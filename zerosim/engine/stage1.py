"""Stage 1, ZeRO-1: optimizer states are partitioned (Rajbhandari et al. 2020, section 5.1).

    parameters  gradients  optimizer        a step sends, in Psi
    all         all        own row          2   (reduce-scatter gradients, all-gather parameters)

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import torch

from zerosim.collectives import Handle
from zerosim.engine.buckets import GradientReducer, keep_in_place
from zerosim.engine.flat import FlatUnit
from zerosim.engine.stage import Context, Stage
from zerosim.events import Purpose, Segment
from zerosim.trace import labels


class OptimizerPartition(Stage):
    """Reduce-scatters whole gradients when the last micro-step is over."""

    def __init__(self, context: Context) -> None:
        """See `Stage`."""
        super().__init__(context)
        self._reducer = GradientReducer(
            context.buckets,
            context.units,
            context.collectives.reduce_scatter,
            self._reduced,
            in_flight=len(context.buckets),
        )
        self._gathers: list[Handle] = []

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """At the boundary each rank gets the sum of its own rows."""
        if last_micro_step and self.context.communicates:
            for flat in reversed(self.context.units):
                if flat.unit.trainable:
                    self._reducer.ready(flat)
            self._reducer.finish()

    def after_update(self, flat: FlatUnit) -> None:
        """Each rank has updated its own row: all need all of them."""
        if self.context.communicates:
            with labels.scope(
                unit=flat.name, purpose=Purpose.GATHER_PARAMETERS, tensors=(flat.name,)
            ):
                self._gathers.append(self.context.collectives.all_gather(flat.rows))

    def finish_update(self) -> None:
        """Wait for the gathers on their way."""
        for gather in self._gathers:
            gather.wait()
        self._gathers.clear()
        super().finish_update()

    def _reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        own = self.context.rank
        keep_in_place(flat, segment, matrix, slice(own, own + 1))
