"""Units that one rank owns and broadcasts, instead of a shard on each rank.

    OwnedStore    ZeRO-3 as in the paper: the owner keeps the whole unit on its device, gets the
                  sum of its gradient, and updates it
    OwnerStore    the baseline of ZeRO-Infinity's bandwidth-centric partitioning: only the owner's
                  bus and disk carry a unit, while those of the other ranks are idle. Gradients
                  are reduce-scattered, so the ranks send their updated rows to the owners: 1/N of
                  Psi that the scheme of the paper does not send

Sources: Rajbhandari et al., "ZeRO" (arXiv 1910.02054), sections 5.3 and 7.2.2; "ZeRO-Infinity"
(arXiv 2104.07857), section 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from zerosim.schema.events import Purpose
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold, release
from zerosim.train.collectives import Handle
from zerosim.train.collectives.executor import Done, TensorHandle
from zerosim.train.engine.context import Context
from zerosim.train.engine.flat import FlatUnit
from zerosim.train.engine.gathering import Gathering
from zerosim.train.engine.stores import ParameterStore
from zerosim.train.engine.tier_stores import DiskStore, TierStore


class OwnedStore(ParameterStore):
    """All rows of the units that this rank owns, on the device."""

    def __init__(self, context: Context) -> None:
        """Create an empty store."""
        super().__init__(context)
        self._owned: dict[str, torch.Tensor] = {}

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:  # noqa: ARG002 - for disks only
        """On the owner, copy all rows to separate memory, so that the unit's can be freed."""
        if self._context.owns(flat):
            self._owned[flat.name] = flat.rows.clone()
            hold(self._owned[flat.name], Role.PARAMETERS, flat.name)
        return False

    def updated(self, flat: FlatUnit) -> list[torch.Tensor]:
        """All rows of a unit on its owner, none elsewhere."""
        return list(self._owned[flat.name]) if self._context.owns(flat) else []

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """The rows, which the optimizer updates in place."""
        return self.updated(flat)

    def fetch(self, flat: FlatUnit) -> Handle:
        """The owner copies all rows."""
        if self._context.owns(flat):
            flat.rows.copy_(self._owned[flat.name])
        return Done()

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        for rows in self._owned.values():
            release(rows)


class OwnerStore(ParameterStore):
    """All rows of a unit on its owner, on the host or on a disk.

    Units are assigned to owners in turn. After an update the other ranks send their rows to the
    owner.
    """

    def __init__(self, context: Context, tier: TierStore) -> None:
        """Keep all rows of units in this tier."""
        super().__init__(context)
        self._tier = tier

    def keep(self, flat: FlatUnit, *, resumes: bool) -> bool:
        """On the owner, put the unit into its tier, unless it is there."""
        if resumes and isinstance(self._tier, DiskStore):
            if self._is_own(flat):
                self._tier.find(flat, flat.flat.numel())
            return True
        if self._is_own(flat):
            self._tier.put(flat, flat.flat).wait()
        return False

    def shared(self, flat: FlatUnit) -> None:
        """A row is never in the tier of the optimizer."""

    def written(self, flat: FlatUnit) -> list[torch.Tensor]:
        """A buffer in the tier of the optimizer."""
        return [self.host_place(flat) if self.updates_on_host else self.device_place(flat)]

    def fetch(self, flat: FlatUnit) -> Handle:
        """The owner copies all rows to the device."""
        return self._tier.get(flat, flat.flat) if self._is_own(flat) else Done()

    def prefetch(self, units: Sequence[FlatUnit]) -> None:
        """Announce the units that this rank owns."""
        self._tier.prefetch([flat for flat in units if self._is_own(flat)])

    def deliver(self, flat: FlatUnit) -> Handle:
        """Send the new row to the owner, which puts all of them into its tier."""
        context, owner = self._context, self._context.owner(flat)
        rows = flat.flat.new_empty(
            context.num_ranks if self._is_own(flat) else 1, flat.unit.columns
        )
        hold(rows, Role.BUFFERS, flat.name)
        own = rows[context.rank] if self._is_own(flat) else rows[0]
        if self.updates_on_host:
            context.order_after(self.bring_back(flat, own))
        else:
            own.copy_(self.places.pop(flat.name))
        with flat.labelled(Purpose.GATHER_PARAMETERS):
            if not self._is_own(flat):
                return TensorHandle(context.collectives.send(own, owner), rows)
            others = [rank for rank in range(context.num_ranks) if rank != owner]
            messages = [context.collectives.receive(rows[rank], rank) for rank in others]
        # they are received in the order of the requests: when the last one ends, all have ended
        return self._tier.put(flat, rows.view(-1), after=messages[-1:])

    def release(self) -> None:
        """The engine is closed."""
        super().release()
        self._tier.release()

    def _is_own(self, flat: FlatUnit) -> bool:
        return self._context.owns(flat)


class OwnerBroadcast(Gathering):
    """All rows from their owner, by a broadcast."""

    def __init__(self, context: Context, store: ParameterStore) -> None:
        """Broadcast the contents of this store."""
        self._context = context
        self._store = store

    def start(self, flat: FlatUnit) -> Handle:
        """The owner fetches the unit, then broadcasts it."""
        context = self._context
        fetched = self._store.fetch(flat)
        if not context.communicates:
            return fetched
        context.order_after(fetched)
        with flat.labelled(Purpose.GATHER_PARAMETERS):
            return context.collectives.broadcast(flat.flat, context.owner(flat))
