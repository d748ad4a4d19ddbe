"""Stage 3, ZeRO-3: parameters are partitioned too (Rajbhandari et al. 2020, sections 5.3 and 7).

    parameters  gradients  optimizer        a step sends, in Psi
    own row     own row    own row          3   (all-gather in forward, all-gather in backward,
                                                 reduce-scatter; nothing after the update)

Imports torch, zerosim's L0, collectives and trace.labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from zerosim.collectives import Handle
from zerosim.engine.flat import FlatUnit, UnitState
from zerosim.engine.gathering import make_gathering
from zerosim.engine.homes import Home
from zerosim.engine.owners import make_home
from zerosim.engine.stage import Context, Stage
from zerosim.engine.stage2 import PartitionedGradients
from zerosim.engine.zeropp import QuantizedReduction
from zerosim.events import Phase
from zerosim.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold


class ParameterPartition(Stage):
    """Unshards a unit before it computes and reshards it as soon as it has computed.

    With prefetch U the next U units, in the order that the first forward showed, are gathered
    while the present one computes.
    """

    frees_parameters = True

    def __init__(self, context: Context) -> None:
        """See `Stage`."""
        super().__init__(context)
        self._gathering = make_gathering(context, self.home)
        self._reduction = QuantizedReduction(context) if context.config.quantize_gradients else None
        reduce = None if self._reduction is None else self._reduction.reduce
        self._gradients = PartitionedGradients(context, reduce)
        self._gathers: dict[str, Handle] = {}
        self._order: list[FlatUnit] = []
        self._order_known = False
        self._finished: set[str] = set()

    def make_home(self) -> Home:
        """A shard of its own, on the device, on the host or on a disk."""
        return make_home(self.context)

    def release(self, flat: FlatUnit) -> None:
        """This rank's row is kept: the rest is freed."""
        hold(flat.flat, Role.GATHERED, flat.name)
        flat.free_parameters()

    @contextmanager
    def whole(self, flat: FlatUnit) -> Iterator[None]:
        """Gather a unit, and free it again."""
        self._start_gather(flat)
        self._finish_gather(flat)
        yield
        self._reshard(flat)

    def gradient_rows(self, flat: FlatUnit) -> list[torch.Tensor]:
        """This rank's row, all that it has."""
        return self._gradients.rows(flat)

    def before_forward(self, flat: FlatUnit) -> None:
        """Unshard; in a recomputation during backward it is unsharded already."""
        if not self._order_known and flat not in self._order:
            self._order.append(flat)
        self._unshard(flat, self._order)

    def after_forward(self, flat: FlatUnit) -> None:
        """Reshard, unless this forward is a recomputation for the unit's own backward."""
        if labels.position().phase is not Phase.BACKWARD:
            self._finish_gather(flat)
            self._gathering.forward_is_over(flat)
            self._reshard(flat)

    def finish_forward(self) -> None:
        """Drop what was gathered ahead and not used: the model took another path."""
        self._order_known = True
        self.home.announce([])
        for flat in self.context.units:
            self._reshard(flat)

    def before_backward(self, flat: FlatUnit) -> None:
        """Unshard again: backward needs the weights that forward used."""
        self._unshard(flat, list(reversed(self._order)))

    def after_backward(self, flat: FlatUnit, *, last_micro_step: bool) -> None:
        """Reshard, then reduce-scatter the gradient."""
        self._finished.add(flat.name)
        self._reshard(flat)
        self._gradients.after_backward(flat)

    def finish_backward(self, *, last_micro_step: bool) -> None:
        """Reshard what was recomputed last; wait for the buckets on their way."""
        self._finished.clear()
        self.home.announce([])
        for flat in self.context.units:
            self._reshard(flat)
        self._gradients.finish_backward(last_micro_step=last_micro_step)

    def finish_update(self) -> None:
        """The reduced rows have been used; the shards are already new."""
        super().finish_update()
        self._gradients.free()
        self._gathering.update_is_over()
        if self._reduction is not None:
            self._reduction.update_is_over()

    def let_go(self) -> None:
        """The engine is closed."""
        super().let_go()
        self._gradients.let_go()
        self._gathering.let_go()
        if self._reduction is not None:
            self._reduction.let_go()

    def _unshard(self, flat: FlatUnit, order: Sequence[FlatUnit]) -> None:
        self._start_gather(flat)
        if self._order_known and flat in order:
            place = order.index(flat)
            end = place + 1 + self.context.config.prefetch
            for ahead in order[place + 1 : end]:
                if ahead.name not in self._finished:
                    self._start_gather(ahead)
            self.home.announce([one for one in order[end:] if one.name not in self._finished])
        self._finish_gather(flat)

    def _start_gather(self, flat: FlatUnit) -> None:
        if flat.state is UnitState.SHARDED:
            flat.allocate_parameters()
            self._gathers[flat.name] = self._gathering.start(flat)

    def _finish_gather(self, flat: FlatUnit) -> None:
        if flat.state is UnitState.GATHERING:
            self._gathers.pop(flat.name).wait()
            flat.show_parameters()

    def _reshard(self, flat: FlatUnit) -> None:
        self._finish_gather(flat)
        if flat.state is UnitState.UNSHARDED:
            flat.free_parameters()
