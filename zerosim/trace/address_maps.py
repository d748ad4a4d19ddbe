"""Where storages lie in a device's memory, asked for by the ledger and answered by whoever knows.

A device that gives out addresses itself (`zerosim.train.device`) installs itself here. What a place
is for comes from `holdings`, and from the ledger for what autograd saved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from zerosim.schema.memory import AddressMap, Role
from zerosim.trace.holdings import holdings
from zerosim.trace.sink import Position

Saved = Callable[[int], str | None]
"""The unit for which autograd saved a storage, given its key; None if it did not."""


class AddressMapper(Protocol):
    """A device that knows the address of everything in its memory."""

    def maps(self, position: Position) -> list[AddressMap]:
        """What is to be written down when the process enters a phase: the map of this moment.

        Before it comes the map of the largest use, if an iteration has just ended.
        """
        ...


class _Mappers:
    places: AddressMapper | None = None
    saved: Saved | None = None


def install(places: AddressMapper | None) -> None:
    """Make this the device whose addresses are written down; None for none."""
    _Mappers.places = places


def installed() -> AddressMapper | None:
    """The device whose addresses are written down."""
    return _Mappers.places


def explain_saved(saved: Saved | None) -> None:
    """Say who knows what autograd saved."""
    _Mappers.saved = saved


def purpose_of(key: int) -> tuple[Role, str]:
    """What a storage is for, and for which unit: `Role.OTHER` if nobody has said."""
    held = holdings.find(key)
    if held is not None:
        return held.role, held.unit
    unit = None if _Mappers.saved is None else _Mappers.saved(key)
    return (Role.OTHER, "") if unit is None else (Role.ACTIVATIONS, unit)
