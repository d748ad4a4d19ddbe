"""Which places a tour stops at.

Each kind of beat where it happens first, and what a class asks about a run: what each rank keeps,
what is freed, the longest wait, the peak of memory, what was sent beside the law. What a run does
not do has no stop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from zerosim.analysis.beats import Sign
from zerosim.schema.events import Phase, Purpose
from zerosim.view.replay.moments import Document
from zerosim.view.replay.tour.stop_sentences import TourWords, longest_wait

LEAST, MOST = 10, 12
"""Stops of a tour, where there is as much to see."""


class About(StrEnum):
    """What a stop is about; at the same step, stops come in this order."""

    RUN = "run"
    """The run, and what each rank keeps."""
    TURN = "turn"
    """Forward is over, backward begins."""
    AGAIN = "again"
    """The second micro-step begins."""
    BEAT = "beat"
    REDUCED = "reduced"
    """The last gradients are reduced."""
    FREE = "free"
    """What was gathered is given back: the end of the step that frees it."""
    WAIT = "wait"
    """The longest one."""
    PEAK = "peak"
    """Of memory."""
    SUM = "sum"
    """What was sent, beside the law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One place of a tour.

    Attributes:
        step: where it stands, from 0.
        title, text: what is said: a headline, and a few sentences.
    """

    about: About
    step: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class _PossibleStop:
    """A stop that there may be.

    Attributes:
        rank: the lower, the more a tour wants it.
    """

    rank: int
    about: About
    step: int


_FIRST, _SOON, _LATE, _REST = range(4)
_ORDER = {about: number for number, about in enumerate(About)}
_LESS = {Sign.AGREE: _LATE, Sign.EXCHANGE: _LATE, Sign.BEGIN: _LATE, Sign.COPY: _SOON}
"""Signs of beats that a tour may leave out."""


def tour_of(document: Document) -> tuple[Stop, ...]:
    """The stops of a tour: the run first, its sum last, all others in the order of their steps.

    Args:
        document: as `zerosim.view.replay.replay_document` makes it; one that breaks a law is toured
            up to where it does.

    Returns:
        Ten to twelve; fewer where less happens.
    """
    wanted = sorted(_places(document), key=lambda place: (place.rank, place.step))
    kept = [place for place in wanted if place.rank < _REST][:MOST]
    kept += _spread([place for place in wanted if place.rank == _REST], LEAST - len(kept))
    words = TourWords(document)
    return tuple(
        Stop(about=place.about, step=place.step, title=title, text=text)
        for place in sorted(kept, key=lambda place: (place.step, _ORDER[place.about]))
        for title, text in [words.said(place.about, place.step)]
        if text
    )


def _spread(places: list[_PossibleStop], number: int) -> list[_PossibleStop]:
    """So many of them, from all over the iteration."""
    number = min(number, len(places))
    return [places[(2 * one + 1) * len(places) // (2 * number)] for one in range(number)]


def _places(document: Document) -> Iterator[_PossibleStop]:
    """All stops that there can be."""
    broken = document["broken"]
    last = len(document["steps"]) - 1 if broken is None else int(broken["step"])
    yield _PossibleStop(_FIRST, About.RUN, 0)
    yield _PossibleStop(_FIRST, About.SUM, last)
    beats = [
        beat
        for beat in document["beats"]
        if beat["main"] <= last and not {Sign.END, Sign.STAND} & set(beat["signs"])
        # what comes after an iteration is none of its beats; a program without any has nothing else
        if beat["phase"] != Phase.OUTSIDE or document["run"]["iteration"] < 0
    ]
    yield from _of_beats(document, beats)
    yield from _of_phases(document, beats, last)
    wait = longest_wait(document, last)
    if wait is not None:
        yield _PossibleStop(_LATE, About.WAIT, wait.step)
    memory = document["memory"]
    tops = [one for one in memory["ranks"] if one is not None] if memory is not None else []
    top = max(tops, key=lambda one: one["peak_bytes"], default=None)
    if top is not None and top["peak_step"] <= last:
        yield _PossibleStop(_FIRST, About.PEAK, top["peak_step"])


def _of_beats(document: Document, beats: list[dict[str, Any]]) -> Iterator[_PossibleStop]:
    """Each kind of beat where it happens first; any other beat, if a tour is short of stops."""
    seen: set[tuple[str, ...]] = set()
    for beat in beats:
        kind, rank = _kind(beat, document["steps"][beat["main"]])
        yield _PossibleStop(_REST if kind in seen else rank, About.BEAT, beat["main"])
        seen.add(kind)


def _kind(beat: dict[str, Any], step: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """What makes a beat one of a kind, and how much a tour wants it."""
    sign = Sign.COMPUTE if Sign.COMPUTE in beat["signs"] else Sign(beat["signs"][0])
    if beat["is_prefetch"] and beat["phase"] == Phase.FORWARD:
        return ("prefetch",), _LATE
    if beat["within"]:
        return ("within", beat["phase"]), _SOON
    if sign in (Sign.AGREE, Sign.UPDATE, Sign.REDUCE):
        return (sign,), _LESS.get(sign, _FIRST)
    more = (step["purpose"],) if sign is Sign.COPY else ()
    return (sign, beat["phase"], *more), _LESS.get(sign, _FIRST)


def _of_phases(
    document: Document, beats: list[dict[str, Any]], last: int
) -> Iterator[_PossibleStop]:
    """What is over or begins again: forward, a micro-step, the reductions; what is freed first."""
    steps = document["steps"][: last + 1]
    phases = [step["phase"] for step in steps]
    first = [
        phase == Phase.FORWARD and not step["micro_step"]
        for phase, step in zip(phases, steps, strict=True)
    ]
    for step in range(1, last):
        if phases[step - 1 : step + 1] == [Phase.FORWARD, Phase.BACKWARD] and not any(first[step:]):
            yield _PossibleStop(_LATE, About.TURN, step)
            break
    frees = [number for number in range(last) if steps[number]["freed"]]
    if frees:  # best where that is computed which is freed: it is what is looked at
        own = [number for number in frees if steps[number]["unit"] in steps[number]["freed"]]
        yield _PossibleStop(_SOON, About.FREE, min(own or frees))
    again = [beat for beat in beats if beat["micro_step"] == 1]
    if document["run"]["accumulate"] > 1 and again:
        yield _PossibleStop(_SOON, About.AGAIN, again[0]["main"])
    reduced = [beat for beat in beats if steps[beat["main"]]["purpose"] == Purpose.REDUCE_GRADIENTS]
    if len(reduced) > 1:
        yield _PossibleStop(_LATE, About.REDUCED, reduced[-1]["main"])
