"""`assert_traffic`: what a rank moves in an iteration is what the test expects.

What is compared is one of three, and a failure names it:

    payload   what PyTorch was asked to move, each buffer whole, an all-reduce counted twice: the
              unit of the papers' laws; in elements for Psi, in bytes for bytes
    trace     what that asks the rank to send: a ring's messages as intercepted, of a native call
              the bound of a ring
    wire      what the kernel counted on the rank's connections to other ranks, all of it

Imports zerosim's L0, record and verify.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from zerosim.analysis.calls import asked_of, cost_of, count_messages
from zerosim.errors import ConfigError
from zerosim.events import Event, Op, Phase, Purpose
from zerosim.pytest_plugin.failure import describe_calls, ledgers, place_words
from zerosim.pytest_plugin.quantity import Quantity
from zerosim.pytest_plugin.selection import WHOLE, Selection, all_calls, purpose_of
from zerosim.pytest_plugin.wire import sent_bytes
from zerosim.quantities import PSI, format_decimal, format_exact, format_exact_bytes
from zerosim.record import Peers, RankTrace, match_sockets

OF_THE_LAW = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS, Purpose.UNLABELLED)
"""What is counted by default: parameters, gradients, and what nobody explained."""
_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_WEIGHTS = {Op.ALL_REDUCE: 2, Op.RECEIVE: 0, Op.BARRIER: 0}


class Ledger(StrEnum):
    """What is compared."""

    PAYLOAD = "payload"
    TRACE = "trace"
    WIRE = "wire"


_WORDS = {
    Ledger.PAYLOAD: "payload, an all-reduce counted twice",
    Ledger.TRACE: "bytes that a rank is asked to send (trace)",
    Ledger.WIRE: "bytes that the kernel sent to other ranks (wire)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a test expects of traffic.

    Attributes:
        tolerance: relative to the quantity.
        psi: number of parameters; 0 where it is not needed.
        element_bytes: size of an element of Psi; None for that of what was moved.
    """

    quantity: Quantity
    ledger: Ledger
    tolerance: Fraction
    psi: int
    element_bytes: int | None


def choose_ledger(quantity: Quantity, given: object) -> Ledger:
    """Which ledger is compared; by default the one that the quantity speaks of.

    Raises:
        ConfigError: there is no such ledger, or it has no such quantity.
    """
    if given is None:
        return Ledger.TRACE if quantity.is_bytes or quantity.ring else Ledger.PAYLOAD
    try:
        ledger = Ledger(given)  # type: ignore[arg-type]
    except ValueError:
        expected = ", ".join(repr(each.value) for each in Ledger)
        raise ConfigError(f"ledger is {given!r}: expected one of {expected}") from None
    if ledger is Ledger.PAYLOAD and quantity.ring:
        raise ConfigError(
            f"{quantity.text} is what a ring sends, and a payload is counted whole: expected "
            f"ledger='trace' or 'wire', or the quantity without (N-1)/N"
        )
    return ledger


def check_traffic(selection: Selection, expected: Expected) -> str:
    """Hold what was moved against what is expected.

    Returns:
        Why it is not so, with the ledgers; "" if it is.

    Raises:
        ConfigError: what is asked for was not measured, or is not clear.
    """
    peers = match_sockets(selection.trace) if expected.ledger is Ledger.WIRE else {}
    wrong: list[tuple[RankTrace, int, Fraction, Fraction, Fraction]] = []
    num_places = 0
    for rank, iteration in selection.places():
        num_places += 1
        calls = selection.calls(rank, iteration)
        unit = _unit(calls, expected)
        wanted = _wanted(rank, calls, selection, expected) * unit
        found = _found(selection, rank, iteration, calls, peers, expected)
        if abs(found - wanted) > expected.tolerance * wanted:
            wrong.append((rank, iteration, found, wanted, unit))
    if not wrong:
        return ""
    rank, iteration, found, wanted, unit = wrong[0]
    told = _amount(found, unit, expected)
    where = place_words(rank.rank, iteration)
    more = f" (and at {len(wrong) - 1} more of {num_places})" if len(wrong) > 1 else ""
    within = f", within {format_decimal(100 * expected.tolerance, 2)} %" * bool(expected.tolerance)
    lines = [
        f"traffic is {told}, expected {expected.quantity.text}{within}: {where}{more}",
        f"  compared  {_WORDS[expected.ledger]}",
        f"  counted   {_counted(selection, expected)}",
        f"  expected  {_amount(wanted, unit, expected)}",
        f"  found     {told}",
    ]
    if not expected.quantity.is_bytes:
        lines.append(f"  {PSI} is     {format_exact(expected.psi)} parameters")
    lines += ["", *describe_calls(selection.calls(rank, iteration)), ""]
    lines += ledgers(selection, rank, iteration)
    return "\n".join(lines)


def require_clear(selection: Selection) -> None:
    """See that no parameters or gradients are moved where nothing is counted.

    Raises:
        ConfigError: some are, and the test did not say whether they count.
    """
    if selection.iterations == (WHOLE,):
        return
    for rank, iteration in selection.places():
        for event in all_calls(rank, iteration):
            if event.phase is Phase.OUTSIDE and purpose_of(event) in _PARAMETERS:
                raise ConfigError(
                    f"rank {rank.rank} moved {purpose_of(event)} outside of forward, backward and "
                    f"update of iteration {iteration} too ({event.op} at {event.source}): "
                    f"expected phase=, with 'outside' in it if that counts"
                )


def _unit(calls: list[Event], expected: Expected) -> Fraction:
    """What one Psi is in what is compared: elements, or bytes."""
    if expected.quantity.is_bytes:
        return Fraction(1)
    if expected.element_bytes is not None:
        return Fraction(expected.psi * expected.element_bytes)
    if expected.ledger is Ledger.PAYLOAD:
        return Fraction(expected.psi)
    sizes = {each.payload_bytes // each.elements: each.dtype for each in calls if each.elements}
    if len(sizes) > 1:
        raise ConfigError(
            f"what is sent has elements of {' and '.join(sorted(sizes.values()))}, so {PSI} in "
            f"bytes is not clear: expected element_bytes="
        )
    return Fraction(expected.psi * next(iter(sizes), 1))


def _wanted(
    rank: RankTrace, calls: list[Event], selection: Selection, expected: Expected
) -> Fraction:
    quantity = expected.quantity
    if quantity.num_bytes is not None:
        return Fraction(quantity.num_bytes)
    sizes = {len(rank.groups[each.group].ranks) for each in calls if each.group in rank.groups}
    if len(sizes) > 1 and (quantity.ring or quantity.per_rank):
        counts = " and ".join(str(size) for size in sorted(sizes))
        raise ConfigError(
            f"what is counted are calls of groups of {counts} ranks, so N is not clear: expected "
            f"purpose= or phase= to choose among them"
        )
    return quantity.in_psi(next(iter(sizes), selection.trace.manifest.num_ranks))


def _found(
    selection: Selection,
    rank: RankTrace,
    iteration: int,
    calls: list[Event],
    peers: Peers,
    expected: Expected,
) -> Fraction:
    if expected.ledger is Ledger.WIRE:
        return Fraction(sent_bytes(rank, peers, iteration, selection.phases))
    if expected.ledger is Ledger.TRACE:
        messages = count_messages(rank)
        costs = [cost_of(rank, each, messages.get(each.id, (0, 0))) for each in calls]
        asked = [asked_of(rank, each, cost) for each, cost in zip(calls, costs, strict=True)]
        return Fraction(sum(cost.sent_bytes for cost in asked))
    in_bytes = expected.quantity.is_bytes or expected.element_bytes is not None
    return Fraction(
        sum(
            _WEIGHTS.get(each.op, 1) * (each.payload_bytes if in_bytes else each.elements)
            for each in calls
            if each.op is not None
        )
    )


def _counted(selection: Selection, expected: Expected) -> str:
    if expected.ledger is Ledger.WIRE:
        return f"everything in {', '.join(selection.phases)}"
    return selection.words


def _amount(value: Fraction, unit: Fraction, expected: Expected) -> str:
    if expected.quantity.is_bytes:
        return format_exact_bytes(value)
    in_bytes = expected.ledger is not Ledger.PAYLOAD or expected.element_bytes is not None
    exact = format_exact_bytes(value) if in_bytes else f"{format_exact(value)} elements"
    return f"{format_decimal(value / unit, 3)} {PSI} = {exact}"
