"""Sentences of a diagnosis, in the current language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from zerosim.base.language import LISTS, Words, clauses, listed, term
from zerosim.record.text import name_ranks, one_line
from zerosim.schema.events import OF_MICRO_BATCHES, Event, Failure, Op, Phase, WireSample
from zerosim.verify.diagnosis.differing import MESSAGES

said = Words.beside(__file__)
"""A sentence, or a part of one, by its key in `words.toml`."""
_NS = 1e9


def call(event: Event, *, with_size: bool = False) -> str:
    """A call: "the reduce-scatter of blocks.1 (backward, iteration 7)"."""
    return said(
        "parts.call_size" if with_size and event.dtype else "parts.call",
        call=short_call(event),
        elements=f"{event.elements:,}",
        dtype=event.dtype,
        moment=moment(event),
    )


def short_call(event: Event) -> str:
    """A call without its position: "the reduce-scatter of blocks.1", "the send of stage 0 to rank
    1".
    """
    peer = ""
    if event.op in MESSAGES and event.peers:
        peer = said("parts.to" if event.op is Op.SEND else "parts.from", rank=event.peers[0])
    key = "parts.op_of" if event.unit else "parts.op"
    return said(key, op=term(event.op or ""), unit=event.unit, peer=peer)


def moment(event: Event) -> str:
    """The position of a call: "backward, iteration 7"."""
    if event.phase is Phase.OUTSIDE and event.iteration < 0 and event.sequence is not None:
        return said("moment.of_group", number=event.sequence, group=repr(event.group))
    if event.phase is Phase.OUTSIDE:
        key = "moment.before_first" if event.iteration < 0 else "moment.after"
        return said(key, iteration=event.iteration)
    if event.phase is Phase.SETUP:
        return said("moment.setup")
    micro = said("moment.micro_step", number=event.micro_step) if event.micro_step else ""
    if event.purpose in OF_MICRO_BATCHES:
        micro = said("moment.micro_batch", number=event.micro_step)
    is_known = event.iteration >= 0
    where = said("moment.iteration", iteration=event.iteration) if is_known else ""
    return said("moment.in", phase=term(event.phase), iteration=where, micro=micro)


def place(thing: Event | Failure | WireSample) -> str:
    """The position of a rank: "in backward of iteration 7"."""
    if thing.phase is Phase.SETUP:
        return said("moment.setup")
    if thing.phase is Phase.OUTSIDE:
        key = "moment.after" if thing.iteration >= 0 else "moment.before_first"
        return said(key, iteration=thing.iteration)
    return said("moment.place", phase=term(thing.phase), iteration=thing.iteration)


def at(source: str) -> str:
    """A line: " at train.py:88 in step"; "" if it is not known."""
    return said("parts.at", source=source) if source else ""


def line(event: Event) -> str:
    """The source line of a call."""
    return event.source or said("parts.unknown_line")


def seconds(ns: float) -> str:
    """A time: "12 s", "0.4 s"."""
    value = ns / _NS
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def ranks(numbers: Iterable[int]) -> str:
    """Ranks: "rank 1", "ranks 0 and 2", "ranks 0, 1 and 3"; more than six by their runs."""
    found = sorted(numbers)
    if len(found) > 6:
        return name_ranks(found)
    if not found:
        return said("parts.no_rank")
    return LISTS("rank" if len(found) == 1 else "ranks", ranks=listed([*map(str, found)]))


def forms(numbers: Sequence[int]) -> dict[str, str]:
    """The verb forms that agree with a number of ranks."""
    several = len(numbers) != 1
    return {verb: said.each(f"parts.{verb}")[several] for verb in ("have", "wait")}


def counted(what: str, number: int) -> str:
    """A number of examined items: "1 call", "4 calls"."""
    one, several = said.each(f"looked.{what}", number=f"{number:,}")
    return one if number == 1 else several


def checksums(crcs: Mapping[int, int]) -> tuple[str, ...]:
    """The value of each rank."""
    return tuple(
        said("parts.checksum", rank=rank, checksum=f"{crc:08x}") for rank, crc in crcs.items()
    )


def joined(parts: Iterable[str]) -> str:
    """The nonempty parts of a sentence, on one line."""
    return one_line(clauses(filter(None, parts)))
