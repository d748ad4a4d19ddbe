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
"""Maps a storage's key to the unit for which autograd saved it; None if it did not."""


class AddressMapper(Protocol):
    """A device that knows all addresses in its memory."""

    def maps(self, position: Position) -> list[AddressMap]:
        """The maps to record when the process enters a phase: the current one.

        If an iteration has just ended, the map at its peak comes first.
        """
        ...


class _Mappers:
    places: AddressMapper | None = None
    saved: Saved | None = None


def install(places: AddressMapper | None) -> None:
    """Record the addresses of this device; None to record none."""
    _Mappers.places = places


def installed() -> AddressMapper | None:
    """The device whose addresses are recorded, if any."""
    return _Mappers.places


def explain_saved(saved: Saved | None) -> None:
    """Set the function that identifies storages saved by autograd."""
    _Mappers.saved = saved


def purpose_of(key: int) -> tuple[Role, str]:
    """Role and unit of a storage; `Role.OTHER` if unknown."""
    held = holdings.find(key)
    if held is not None:
        return held.role, held.unit
    unit = None if _Mappers.saved is None else _Mappers.saved(key)
    return (Role.OTHER, "") if unit is None else (Role.ACTIVATIONS, unit)
