"""Addresses of storages in a device's memory: requested by the ledger, provided by the device.

A device that allocates addresses itself (`zerosim.train.device`) installs itself here. The role of
a block comes from `holdings`, and from the ledger for tensors saved by autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zerosim.schema.memory import AddressMap, Role
from zerosim.trace.holdings import holdings
from zerosim.trace.sink import Position

Saved = Callable[[int], str | None]
"""The unit for which autograd saved a storage, by its key; None if it did not."""


class AddressMapper(Protocol):
    """A device that knows the address of everything in its memory."""

    def maps(self, position: Position) -> list[AddressMap]:
        """The maps to record when the process enters a phase: that of this moment.

        The map of the peak comes first, if an iteration has just ended.
        """
        ...


class _Mappers:
    places: AddressMapper | None = None
    saved: Saved | None = None


def install(places: AddressMapper | None) -> None:
    """Record the addresses of this device; None for none."""
    _Mappers.places = places


def installed() -> AddressMapper | None:
    """The device of the recorded addresses."""
    return _Mappers.places


def explain_saved(saved: Saved | None) -> None:
    """Set the function that knows which storages autograd saved."""
    _Mappers.saved = saved


def purpose_of(key: int) -> tuple[Role, str]:
    """Role and unit of a storage; `Role.OTHER` if unknown."""
    held = holdings.find(key)
    if held is not None:
        return held.role, held.unit
    unit = None if _Mappers.saved is None else _Mappers.saved(key)
    return (Role.OTHER, "") if unit is None else (Role.ACTIVATIONS, unit)
