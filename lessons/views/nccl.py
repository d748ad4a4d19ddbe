"""Figures of NCCL: its traffic for a call, and the times on two clocks."""

from __future__ import annotations

from zerosim.lessons.facts import Facts
from zerosim.lessons.views.model import FigureTable
from zerosim.lessons.views.wording import each, said


def protocols(facts: Facts) -> FigureTable:
    """Traffic of an all-reduce of two ranks, by its payload."""
    rows = []
    for payload in facts.nccl_payloads():
        sent = facts.nccl_sent(payload)
        name = facts.nccl_protocol(payload).upper()
        times = f"{facts.nccl_times(payload):.4f}"
        rows.append((f"{payload:,}", name, f"{sent:,}", f"{sent - payload:,}", times))
    return FigureTable(said("protocols.title"), each("protocols.columns"), tuple(rows))


def bucketed(facts: Facts, *runs: str) -> FigureTable:
    """Calls, bytes and predicted time of a backward that reduces bucket by bucket."""
    rows = tuple(
        (
            facts.title(run),
            str(facts.num_calls(run, "reduce-scatter")),
            f"{facts.payload(run, op='reduce-scatter'):,}",
            f"{facts.framing(run):,}",
            f"{facts.took_ms(run):.2f}",
        )
        for run in runs
    )
    return FigureTable(said("bucketed.title"), each("bucketed.columns"), rows)


def clocks(facts: Facts, traced: str, profiled: str) -> FigureTable:
    """Durations of the same calls on the host's clock and on the device's.

    Args:
        traced: recorded on the host.
        profiled: the same program's steps in a profile of its device.
    """
    on_device = facts.call_times(profiled)
    rows = tuple(
        (
            op,
            f"{payload:,}",
            str(len(took)),
            f"{facts.took_to_call_ms(traced, payload):.2f}",
            f"{facts.took_to_call_ms(profiled, payload):.2f}",
        )
        for (op, payload), took in facts.call_times(traced).items()
        if (op, payload) in on_device
    )
    return FigureTable(said("clocks.title"), each("clocks.columns"), rows)
