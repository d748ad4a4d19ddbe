"""A law given by the user, compared with a rank's traffic in an iteration.

One of three ledgers is compared:

    payload   the requested buffers, each whole, an all-reduce counted twice: the unit of the
              papers' laws; in elements for Psi, in bytes for bytes
    trace     the bytes that the program requested: a ring's messages as intercepted; for a
              native call, the bound of a ring
    wire      the kernel's count on the rank's connections to other ranks, all of it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from zerosim.analysis.traffic import TracedCall, total
from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_decimal, format_exact, format_exact_bytes
from zerosim.record import RankTrace, Trace
from zerosim.schema.events import Event, Purpose
from zerosim.schema.strategies import HAND_WRITTEN
from zerosim.systems.registry import systems
from zerosim.view.reading.quantity import Quantity
from zerosim.view.reading.selection import Selection
from zerosim.view.reading.traffic_tables import wire

OF_THE_LAW = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS, Purpose.UNLABELLED)
"""Purposes counted by default: parameters, gradients, and unknown ones."""


class LedgerName(StrEnum):
    """The ledger to compare."""

    PAYLOAD = "payload"
    TRACE = "trace"
    WIRE = "wire"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The expected traffic.

    Attributes:
        tolerance: relative to the quantity.
        psi: number of parameters; 0 if not needed.
        element_bytes: size of an element of Psi; None for that of the moved elements.
    """

    quantity: Quantity
    ledger: LedgerName
    tolerance: Fraction
    psi: int
    element_bytes: int | None


@dataclass(frozen=True, slots=True)
class RankAmount:
    """The traffic of one rank in one iteration, beside the expected one.

    Attributes:
        found, wanted: in the unit of the ledger: elements, or bytes.
        unit: one Psi in that unit.
    """

    rank: RankTrace
    iteration: int
    found: Fraction
    wanted: Fraction
    unit: Fraction
    holds: bool


def choose_ledger(quantity: Quantity, given: object) -> LedgerName:
    """The ledger to compare; by default that of the quantity.

    Raises:
        ConfigError: there is no such ledger, or it does not have this quantity.
    """
    if given is None:
        return LedgerName.TRACE if quantity.is_bytes or quantity.ring else LedgerName.PAYLOAD
    known = {ledger.value: ledger for ledger in LedgerName}
    if not isinstance(given, str) or given not in known:
        expected = ", ".join(repr(each) for each in known)
        raise ConfigError(f"ledger is {given!r}: expected one of {expected}")
    ledger = known[given]
    if ledger is LedgerName.PAYLOAD and quantity.ring:
        raise ConfigError(
            f"{quantity.text} is the traffic of a ring, but payload counts whole buffers: expected "
            f"ledger='trace' or 'wire', or the quantity without (N-1)/N"
        )
    return ledger


def held_against(
    calls: Sequence[TracedCall], chosen: Selection, expected: Expected
) -> Iterator[RankAmount]:
    """Every rank in every iteration, beside the expected traffic.

    Args:
        calls: of the whole run.

    Raises:
        ConfigError: the traffic was not measured, or is ambiguous.
    """
    counted = [call for call in calls if chosen.has(call.event)]
    for rank, iteration in chosen.places():
        own = chosen.calls(rank, iteration)
        ids = {event.id for event in own}
        moves = [call for call in counted if call.rank == rank.rank and call.event.id in ids]
        unit = _unit(own, expected)
        wanted = _wanted(rank, own, chosen, expected) * unit
        found = _found(chosen, rank, iteration, moves, expected)
        holds = abs(found - wanted) <= expected.tolerance * wanted
        yield RankAmount(rank, iteration, found, wanted, unit, holds)


def amount_words(value: Fraction, unit: Fraction, expected: Expected) -> str:
    """An amount in words: in Psi if the law is in Psi, and exactly."""
    if expected.quantity.is_bytes:
        return format_exact_bytes(value)
    in_bytes = expected.ledger is not LedgerName.PAYLOAD or expected.element_bytes is not None
    exact = format_exact_bytes(value) if in_bytes else f"{format_exact(value)} elements"
    return f"{format_decimal(value / unit, 3)} {PSI} = {exact}"


def num_parameters(trace: Trace, given: object = None) -> int:
    """Psi: the given number, else that of the trace.

    Args:
        given: a model, a number of parameters, or None.

    Raises:
        ConfigError: it is neither, or the trace does not contain it.
    """
    if given is not None:
        return _given_parameters(given)
    if trace.manifest.units:
        return sum(unit.elements for unit in trace.manifest.units)
    found = {(rank.rank, name): size for rank in trace.ranks for name, size in _systems(rank)}
    sizes = set(found.values())
    if len(sizes) == 1:
        return sizes.pop()
    if not sizes:
        raise ConfigError(
            f"the trace does not give the number of parameters {PSI}: expected psi=model, before "
            "it is wrapped, or psi= their number"
        )
    said = {name: size for (_, name), size in found.items()}
    words = ", ".join(f"{name} says {format_exact(size)}" for name, size in said.items())
    raise ConfigError(
        f"the number of parameters {PSI} is ambiguous: {words}: expected psi=model, before it is "
        f"wrapped, or psi= their number"
    )


def _systems(rank: RankTrace) -> Iterator[tuple[str, int]]:
    """The number of parameters that each system partitions, as recorded."""
    whole = [name for name, system in systems().items() if system.has_whole_model]
    for name in (*whole, HAND_WRITTEN):
        latest = {one.name: one for one in rank.strategies if one.system == name}
        size = sum(one.num_parameters for one in latest.values())
        if size:
            yield name, size


def _given_parameters(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    parameters = getattr(given, "parameters", None)
    if not callable(parameters):
        raise ConfigError(f"psi is {given!r}: expected a model or a number of parameters")
    size = sum(parameter.numel() for parameter in parameters())
    if size == 0:
        raise ConfigError("psi is a model without parameters: expected one with parameters")
    return int(size)


def _unit(calls: Sequence[Event], expected: Expected) -> Fraction:
    """One Psi in the unit of the ledger: elements, or bytes."""
    if expected.quantity.is_bytes:
        return Fraction(1)
    if expected.element_bytes is not None:
        return Fraction(expected.psi * expected.element_bytes)
    if expected.ledger is LedgerName.PAYLOAD:
        return Fraction(expected.psi)
    sizes = {each.payload_bytes // each.elements: each.dtype for each in calls if each.elements}
    if len(sizes) > 1:
        raise ConfigError(
            f"the calls have elements of {' and '.join(sorted(sizes.values()))}, so "
            f"{PSI} in bytes is ambiguous: expected element_bytes="
        )
    return Fraction(expected.psi * next(iter(sizes), 1))


def _wanted(
    rank: RankTrace, calls: Sequence[Event], chosen: Selection, expected: Expected
) -> Fraction:
    quantity = expected.quantity
    if quantity.num_bytes is not None:
        return Fraction(quantity.num_bytes)
    sizes = {len(rank.groups[each.group].ranks) for each in calls if each.group in rank.groups}
    if len(sizes) > 1 and (quantity.ring or quantity.per_rank):
        counts = " and ".join(str(size) for size in sorted(sizes))
        raise ConfigError(
            f"the counted calls are of groups of {counts} ranks, so N is ambiguous: "
            "expected purpose= or phase= to choose among them"
        )
    return quantity.in_psi(next(iter(sizes), chosen.trace.manifest.num_ranks))


def _found(
    chosen: Selection,
    rank: RankTrace,
    iteration: int,
    moves: Sequence[TracedCall],
    expected: Expected,
) -> Fraction:
    if expected.ledger is LedgerName.WIRE:
        return Fraction(wire_sent_bytes(chosen, rank, iteration))
    moved = total(moves)
    if expected.ledger is LedgerName.TRACE:
        if moved.sent_bytes is None:
            raise ConfigError(moved.unknown)
        return Fraction(moved.sent_bytes)
    in_bytes = expected.quantity.is_bytes or expected.element_bytes is not None
    return Fraction(moved.volume_bytes if in_bytes else moved.volume_elements)


def wire_sent_bytes(chosen: Selection, rank: RankTrace, iteration: int) -> int:
    """The kernel's count of a rank's traffic to other ranks, in the phases of an iteration.

    Raises:
        ConfigError: the kernel's count was not measured.
    """
    table = wire(replace(chosen, ranks=(rank,), iterations=(iteration,)), "rank", "")
    for problem in table.notes:
        raise ConfigError(f"{problem}; ledger='trace' counts the requested bytes")
    return table.sent_bytes or 0
