"""Sentences of a diagnosis. Imports zerosim's L0, record and its siblings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zerosim.diagnosis.differing import MESSAGES
from zerosim.events import OF_MICRO_BATCHES, Event, Failure, Op, Phase, WireSample
from zerosim.record.text import name_ranks, one_line

_NS = 1e9


def call(event: Event, *, with_size: bool = False) -> str:
    """A call: "the reduce-scatter of blocks.1 (backward, iteration 7)"."""
    size = f" of {event.elements:,} {event.dtype} elements" if with_size and event.dtype else ""
    return f"{short_call(event)}{size} ({moment(event)})"


def short_call(event: Event) -> str:
    """A call without where: "the reduce-scatter of blocks.1", "the send of stage 0 to rank 1"."""
    unit = f" of {event.unit}" if event.unit else ""
    peer = ""
    if event.op in MESSAGES and event.peers:
        peer = f" {'to' if event.op is Op.SEND else 'from'} rank {event.peers[0]}"
    return f"the {event.op}{unit}{peer}"


def moment(event: Event) -> str:
    """Where a call belongs: "backward, iteration 7"."""
    if event.phase is Phase.OUTSIDE and event.iteration < 0 and event.sequence is not None:
        return f"call {event.sequence} of group {event.group!r}"
    if event.phase is Phase.OUTSIDE:
        return (
            "before the first iteration"
            if event.iteration < 0
            else (f"after iteration {event.iteration}")
        )
    if event.phase is Phase.SETUP:
        return "during setup"
    micro = f", micro-step {event.micro_step}" if event.micro_step else ""
    if event.purpose in OF_MICRO_BATCHES:
        micro = f", micro-batch {event.micro_step}"
    where = f", iteration {event.iteration}" if event.iteration >= 0 else ""
    return f"{event.phase}{where}{micro}"


def place(thing: Event | Failure | WireSample) -> str:
    """Where a rank was: "in backward of iteration 7"."""
    if thing.phase is Phase.SETUP:
        return "during setup"
    if thing.phase is Phase.OUTSIDE:
        return (
            f"after iteration {thing.iteration}"
            if thing.iteration >= 0
            else ("before the first iteration")
        )
    return f"in {thing.phase} of iteration {thing.iteration}"


def at(source: str) -> str:
    """A line: " (train.py:88 in step)"; "" if it is not known."""
    return f" at {source}" if source else ""


def seconds(ns: float) -> str:
    """A time: "12 s", "0.4 s"."""
    value = ns / _NS
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def ranks(numbers: Iterable[int]) -> str:
    """Ranks: "rank 1", "ranks 0 and 2", "ranks 0, 1 and 3"; more than six by their runs."""
    found = sorted(numbers)
    if len(found) > 6:
        return name_ranks(found)
    if len(found) < 2:
        return f"rank {found[0]}" if found else "no rank"
    return f"ranks {', '.join(map(str, found[:-1]))} and {found[-1]}"


def have(numbers: Sequence[int]) -> str:
    """Its verb."""
    return "has" if len(numbers) == 1 else "have"


def joined(parts: Iterable[str]) -> str:
    """Parts of a sentence that are there, on one line."""
    return one_line("; ".join(filter(None, parts)))
