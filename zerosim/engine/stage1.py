"""Stage 1, ZeRO-1: optimizer states are partitioned (Rajbhandari et al. 2020, section 5.1).

    parameters  gradients  optimizer        a step sends, in Psi
    all         all        own row          2   (reduce-scatter gradients, all-gather parameters)

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

import torch

from zerosim.collectives import Handle
from zerosim.config import Offload
from zerosim.engine.buckets import keep_in_place
from zerosim.engine.flat import FlatUnit
from zerosim.engine.gradients import HostRows
from zerosim.engine.homes import Home
from zerosim.engine.stage import Context
from zerosim.engine.stage0 import DataParallel
from zerosim.events import Purpose
from zerosim.manifest import Segment
from zerosim.trace import labels


class OptimizerPartition(DataParallel):
    """Data parallel in which a rank updates its own row only.

    So it needs the sum of that row only, and then the other ranks' new rows.
    """

    def __init__(self, context: Context) -> None:
        """See `Stage`."""
        super().__init__(context)
        self._gathers: list[Handle] = []
        offloads = context.config.offload_optimizer is not Offload.NONE
        self._offloaded = HostRows(context) if offloads else None

    def updated_rows(self) -> tuple[int, ...]:
        """This rank's own row."""
        return (self.context.rank,)

    def make_home(self) -> Home:
        """The own row, in its unit."""
        return Home(self.context)

    def gradient_rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The own row of the gradient, on the device or on the host."""
        if self._offloaded is not None:
            return self._offloaded.rows(flat)
        return super().gradient_rows(flat)

    def reduce(self, bucket: torch.Tensor) -> Handle:
        """Every rank gets the sum of its own row."""
        return self.context.collectives.reduce_scatter(bucket)

    def reduced(self, flat: FlatUnit, segment: Segment, matrix: torch.Tensor) -> None:
        """Only the own row is a sum; the others hold partial ones."""
        own = self.context.rank
        if self._offloaded is None:
            keep_in_place(flat, segment, matrix, slice(own, own + 1))
        else:
            self._offloaded.begin(flat)
            self._offloaded.take(flat, segment, matrix[own], adds=False)

    def before_reuse(self) -> None:
        """Its pieces have left the device, if they are leaving it."""
        if self._offloaded is not None:
            self._offloaded.settle()

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """Reduce in the last micro-step; alone, there is nothing to reduce before it leaves."""
        super().after_backward(flat, last_micro_step=last_micro_step)
        if last_micro_step and not self.context.communicates and flat.unit.trainable:
            assert flat.gradient is not None
            self.reduced(flat, flat.whole_segment, flat.gradient)

    def after_update(self, flat: FlatUnit) -> None:
        """Each rank has updated its own row: all need all of them."""
        super().after_update(flat)
        if self.context.communicates:
            with labels.scope(
                unit=flat.name, purpose=Purpose.GATHER_PARAMETERS, tensors=(flat.name,)
            ):
                self._gathers.append(self.context.collectives.all_gather(flat.rows))

    def gathered(self) -> None:
        """Wait for the gathers on their way."""
        for gather in self._gathers:
            gather.wait()
        self._gathers.clear()

    def finish_update(self) -> None:
        """The reduced rows have been used, and the other ranks' parameters are here."""
        self.gathered()
        if self._offloaded is not None:
            self._offloaded.free()
        super().finish_update()

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        if self._offloaded is not None:
            self._offloaded.let_go()
