"""The second of a stage's two policies: the partitioning of parameters.

    CompleteParameters    every rank has all of them. If each rank updates only its own rows,
                          they are gathered after the update
    ShardedParameters     a rank has its own row, and the whole unit only during computation:
                          gathered for forward, freed, gathered again for backward; no
                          communication after the update

Source: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5.3 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from zerosim.base.config import Offload
from zerosim.schema.events import Phase, Purpose
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.train.collectives import Handle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit, UnitState
from zerosim.train.engine.gathering import Gathering, RowGathering
from zerosim.train.engine.owners import OwnedStore, OwnerBroadcast, OwnerStore
from zerosim.train.engine.stores import OffloadedStore, ParameterStore, ShardStore
from zerosim.train.engine.tier_stores import DiskStore, HostStore
from zerosim.train.engine.zeropp import QuantizedGathering, SecondaryGathering


class Parameters:
    """The moments of an iteration at which the policies differ; the default is no action.

    Attributes:
        sharded: whether a unit's parameters are present only while its module computes.
        store: the store of the rows that this rank updates.
    """

    sharded = False

    def __init__(self, context: Context) -> None:
        """Create the policy for units that have no memory yet."""
        self.context = context
        self.store = _make_store(context) if self.sharded else ParameterStore(context)

    def shard(self, flat: FlatUnit) -> None:
        """The store has received its rows of a unit that was complete on every rank."""

    @contextmanager
    def unsharded(self, flat: FlatUnit) -> Iterator[None]:
        """A context in which all parameters of a unit are present on every rank."""
        yield

    def before_forward(self, flat: FlatUnit) -> None:
        """The unit's module is about to compute."""

    def after_forward(self, flat: FlatUnit) -> None:
        """The unit's module has computed."""

    def finish_forward(self) -> None:
        """The model has computed."""

    def before_backward(self, flat: FlatUnit) -> None:
        """The gradient of the unit's output is present."""

    def after_backward(self, flat: FlatUnit) -> None:
        """All gradients of the unit are present."""

    def finish_backward(self) -> None:
        """The backward pass has ended."""

    def after_update(self, flat: FlatUnit) -> None:
        """The updated rows of the unit are being copied to the store."""

    def gathered(self) -> None:
        """Wait until the rows updated by other ranks have arrived."""

    def finish_update(self) -> None:
        """The optimizer step has ended, or was skipped."""

    def release(self) -> None:
        """The engine is closed."""
        self.store.release()


class CompleteParameters(Parameters):
    """Every rank has all parameters at all times."""

    def __init__(self, context: Context) -> None:
        """Create the policy for units that have no memory yet."""
        super().__init__(context)
        self._gathers: list[Handle] = []

    def after_update(self, flat: FlatUnit) -> None:
        """Gather the rows, unless each rank has updated all of them."""
        if len(self.context.updated_rows(flat)) < self.context.num_ranks:
            with flat.labelled(Purpose.GATHER_PARAMETERS):
                self._gathers.append(self.context.collectives.all_gather(flat.rows))

    def gathered(self) -> None:
        """Wait for the gathers in flight."""
        for gather in self._gathers:
            gather.wait()
        self._gathers.clear()


class ShardedParameters(Parameters):
    """Unshards a unit before it computes and reshards it as soon as it has computed.

    With prefetch U, the next U units, in the order of the first forward, are gathered while the
    current one computes.
    """

    sharded = True

    def __init__(self, context: Context) -> None:
        """Create the policy for units that have no memory yet."""
        super().__init__(context)
        self._gathering = _make_gathering(context, self.store)
        self._gathers: dict[str, Handle] = {}
        self._order: list[FlatUnit] = []
        self._order_known = False
        self._finished: set[str] = set()

    def shard(self, flat: FlatUnit) -> None:
        """Free the whole unit."""
        hold(flat.flat, Role.GATHERED, flat.name)
        flat.free_parameters()

    @contextmanager
    def unsharded(self, flat: FlatUnit) -> Iterator[None]:
        """A context that gathers a unit, and frees it afterwards."""
        self._start_gather(flat)
        self._finish_gather(flat)
        yield
        self._reshard(flat)

    def before_forward(self, flat: FlatUnit) -> None:
        """Unshard; in a recomputation during backward, it already is."""
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
        """Free prefetched units that were not used: the model took a different path."""
        self._order_known = True
        self._reshard_all()

    def before_backward(self, flat: FlatUnit) -> None:
        """Unshard again: backward needs the weights that forward used."""
        self._unshard(flat, list(reversed(self._order)))

    def after_backward(self, flat: FlatUnit) -> None:
        """Reshard, before its gradient is reduced."""
        self._finished.add(flat.name)
        self._reshard(flat)

    def finish_backward(self) -> None:
        """Reshard the last recomputed unit."""
        self._finished.clear()
        self._reshard_all()

    def finish_update(self) -> None:
        """The shards have new values."""
        self._gathering.update_is_over()

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        self._gathering.release()

    def _unshard(self, flat: FlatUnit, order: Sequence[FlatUnit]) -> None:
        self._start_gather(flat)
        if self._order_known and flat in order:
            place = order.index(flat)
            end = place + 1 + self.context.config.prefetch
            for ahead in order[place + 1 : end]:
                if ahead.name not in self._finished:
                    self._start_gather(ahead)
            self.store.prefetch([one for one in order[end:] if one.name not in self._finished])
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

    def _reshard_all(self) -> None:
        self.store.prefetch([])
        for flat in self.context.units:
            self._reshard(flat)


def _make_store(context: Context) -> ParameterStore:
    """The configured store of a rank's own shard of the parameters."""
    kind = context.config.offload_param
    if kind is Offload.NONE:
        return (OwnedStore if context.config.owners_update else ShardStore)(context)
    tier = HostStore(context) if kind is Offload.CPU else DiskStore(context)
    return (OwnerStore if context.config.has_owners else OffloadedStore)(context, tier)


def _make_gathering(context: Context, store: ParameterStore) -> Gathering:
    """The configured way to gather a unit's parameters."""
    if context.config.has_owners:
        return OwnerBroadcast(context, store)
    by_rows = QuantizedGathering if context.config.quantize_weights else RowGathering
    if not context.config.has_secondary:
        return by_rows(context, store)
    return SecondaryGathering(context, by_rows(context, store))
