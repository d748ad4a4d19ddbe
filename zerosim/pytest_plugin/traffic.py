"""`assert_traffic`: the traffic of a rank in an iteration is as expected.

It compares the payload, the trace or the wire (`reading.law`), and a failure names the ledger.
"""

from __future__ import annotations

from zerosim.base.errors import ConfigError
from zerosim.base.quantities import PSI, format_decimal, format_exact
from zerosim.pytest_plugin.failure import describe_calls, ledgers, place_words
from zerosim.schema.events import WHOLE, Phase, Purpose
from zerosim.view.reading import Run
from zerosim.view.reading.law import Expected, LedgerName, amount_words, held_against
from zerosim.view.reading.selection import Selection, all_calls, purpose_of

_PARAMETERS = (Purpose.GATHER_PARAMETERS, Purpose.REDUCE_GRADIENTS)
_WORDS = {
    LedgerName.PAYLOAD: "payload, an all-reduce counted twice",
    LedgerName.TRACE: "bytes that a rank was asked to send (trace)",
    LedgerName.WIRE: "bytes that the kernel sent to other ranks (wire)",
}


def check_traffic(run: Run, selection: Selection, expected: Expected) -> str:
    """Compare traffic with the expectation.

    Returns:
        Why it differs, with the ledgers; "" if it is as expected.

    Raises:
        ConfigError: the traffic was not measured, or is ambiguous.
    """
    held = list(held_against(run.calls, selection, expected))
    wrong = [one for one in held if not one.holds]
    if not wrong:
        return ""
    first = wrong[0]
    rank, iteration = first.rank, first.iteration
    told = amount_words(first.found, first.unit, expected)
    where = place_words(rank.rank, iteration)
    more = f" (and at {len(wrong) - 1} more of {len(held)})" if len(wrong) > 1 else ""
    within = f", within {format_decimal(100 * expected.tolerance, 2)} %" * bool(expected.tolerance)
    lines = [
        f"traffic is {told}, expected {expected.quantity.text}{within}: {where}{more}",
        f"  compared  {_WORDS[expected.ledger]}",
        f"  counted   {_counted(selection, expected)}",
        f"  expected  {amount_words(first.wanted, first.unit, expected)}",
        f"  found     {told}",
    ]
    if not expected.quantity.is_bytes:
        lines.append(f"  {PSI} is     {format_exact(expected.psi)} parameters")
    lines += ["", *describe_calls(selection.calls(rank, iteration)), ""]
    lines += ledgers(run, rank, iteration)
    return "\n".join(lines)


def require_clear(selection: Selection) -> None:
    """Check that no parameters or gradients are moved where nothing is counted.

    Raises:
        ConfigError: some are, and the test does not specify whether they count.
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


def _counted(selection: Selection, expected: Expected) -> str:
    if expected.ledger is LedgerName.WIRE:
        return f"everything in {', '.join(selection.phases)}"
    return selection.words
