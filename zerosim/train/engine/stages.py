"""The four stages of ZeRO: a policy for gradients and one for parameters.

    stage               gradients                       parameters    G micro-steps send, in Psi
    0  data parallel    all-reduced at the boundary     complete      2
    1  ZeRO-1           reduce-scattered there          complete      1 + 1 for gathering them
    2  ZeRO-2           reduce-scattered at once        complete      G + 1 for gathering them
    3  ZeRO-3           reduce-scattered at once        sharded       G + 2 G for gathering them

A rank updates the rows with a reduced gradient on it: all of them in stage 0, its own row in
the others, where the optimizer states are partitioned. Stage 3 with owners reduces each unit to
its owner at once, which keeps and updates all its rows: the same 3 Psi.
Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5 and 7.
"""

from __future__ import annotations

from collections.abc import Callable

from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.gradients import (
    AllReduce,
    Gradients,
    ReduceAtOnce,
    ReduceScatterAtBoundary,
)
from zerosim.train.engine.parameters import CompleteParameters, Parameters, ShardedParameters

STAGES: dict[int, tuple[Callable[[Context], Gradients], type[Parameters]]] = {
    0: (AllReduce, CompleteParameters),
    1: (ReduceScatterAtBoundary, CompleteParameters),
    2: (ReduceAtOnce, CompleteParameters),
    3: (ReduceAtOnce, ShardedParameters),
}


class Stage:
    """The two policies of a stage, and the moments that concern both.

    Attributes:
        parameters: the treatment of a unit's parameters before and after its computation.
        gradients: the treatment of a unit's gradient.
    """

    def __init__(self, context: Context) -> None:
        """Create the stage for units that have no memory yet."""
        self._context = context
        gradients, parameters = STAGES[context.config.stage]
        self.parameters = parameters(context)
        self.gradients = gradients(context)
        self._deliveries: list[Handle] = []

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """All gradients of the unit are present."""
        self.parameters.after_backward(flat)
        if flat.unit.trainable:
            self.gradients.after_backward(flat, last_micro_step=last_micro_step)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """The backward pass has ended, and after_backward was called for every unit."""
        self.parameters.finish_backward()
        self.gradients.finish_backward(last_micro_step=last_micro_step)

    def after_update(self, flat: FlatUnit) -> None:
        """The updated rows of the unit's parameters are written: bring them to their store."""
        delivery = self.parameters.store.deliver(flat)
        self._context.order_after(delivery)
        self._deliveries.append(delivery)
        self.parameters.after_update(flat)

    def settle(self) -> None:
        """Wait until the written rows are delivered, so that their buffer may be overwritten."""
        for delivery in self._deliveries:
            delivery.wait()
        self._deliveries.clear()

    def finish_update(self) -> None:
        """The optimizer step is over, or was skipped."""
        self.parameters.gathered()
        self.settle()
        for flat in self._context.units:
            flat.start_over()
        self.parameters.finish_update()
        self.gradients.finish_update()

    def release(self) -> None:
        """The engine is closed."""
        self.parameters.release()
        self.gradients.release()
