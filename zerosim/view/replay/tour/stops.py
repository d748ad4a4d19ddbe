"""The choice of a tour's stops.

Each kind of beat at its first occurrence, and a lecture's questions about a run: the states of each
rank, frees, the longest wait, the memory peak, traffic beside the law. An action that a run lacks
has no stop.
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
"""Number of stops of a tour, if there are enough candidates."""


class About(StrEnum):
    """The subject of a stop; at the same step, stops are in this order."""

    RUN = "run"
    """The run, and the states of each rank."""
    TURN = "turn"
    """Forward is over, backward begins."""
    AGAIN = "again"
    """The second micro-step begins."""
    BEAT = "beat"
    REDUCED = "reduced"
    """The last gradients are reduced."""
    FREE = "free"
    """Gathered parameters are freed: the end of that step."""
    WAIT = "wait"
    """The longest wait."""
    PEAK = "peak"
    """The peak of memory."""
    SUM = "sum"
    """The traffic, compared with the law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """One stop of a tour.

    Attributes:
        step: its step, from 0.
        title, text: a headline, and a few sentences.
    """

    about: About
    step: int
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class _PossibleStop:
    """A candidate for a stop.

    Attributes:
        rank: its priority; lower values come first.
    """

    rank: int
    about: About
    step: int


_FIRST, _SOON, _LATE, _REST = range(4)
_ORDER = {about: number for number, about in enumerate(About)}
_LESS = {Sign.AGREE: _LATE, Sign.EXCHANGE: _LATE, Sign.BEGIN: _LATE, Sign.COPY: _SOON}
"""Signs of beats that a tour may omit, with their priorities."""


def tour_of(document: Document) -> tuple[Stop, ...]:
    """The stops of a tour: the run first, its sum last, all others in order of their steps.

    Args:
        document: the result of `zerosim.view.replay.replay_document`; one that breaks a law is
            covered up to that step.

    Returns:
        Ten to twelve; fewer if less happens.
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
    """A number of them, spread over the iteration."""
    number = min(number, len(places))
    return [places[(2 * one + 1) * len(places) // (2 * number)] for one in range(number)]


def _places(document: Document) -> Iterator[_PossibleStop]:
    """All candidates."""
    broken = document["broken"]
    last = len(document["steps"]) - 1 if broken is None else int(broken["step"])
    yield _PossibleStop(_FIRST, About.RUN, 0)
    yield _PossibleStop(_FIRST, About.SUM, last)
    beats = [
        beat
        for beat in document["beats"]
        if beat["main"] <= last and not {Sign.END, Sign.STAND} & set(beat["signs"])
        # steps after an iteration are not part of its beats; a program without iterations has no
        # others
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
    """Each kind of beat at its first occurrence; any other beat, if a tour is short of stops."""
    seen: set[tuple[str, ...]] = set()
    for beat in beats:
        kind, rank = _kind(beat, document["steps"][beat["main"]])
        yield _PossibleStop(_REST if kind in seen else rank, About.BEAT, beat["main"])
        seen.add(kind)


def _kind(beat: dict[str, Any], step: dict[str, Any]) -> tuple[tuple[str, ...], int]:
    """The kind of a beat, and its priority for a tour."""
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
    """Ends and starts: of forward, a micro-step, the reductions; the first free."""
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
    if frees:  # best at the computation of the freed unit: it is in view
        own = [number for number in frees if steps[number]["unit"] in steps[number]["freed"]]
        yield _PossibleStop(_SOON, About.FREE, min(own or frees))
    again = [beat for beat in beats if beat["micro_step"] == 1]
    if document["run"]["accumulate"] > 1 and again:
        yield _PossibleStop(_SOON, About.AGAIN, again[0]["main"])
    reduced = [beat for beat in beats if steps[beat["main"]]["purpose"] == Purpose.REDUCE_GRADIENTS]
    if len(reduced) > 1:
        yield _PossibleStop(_LATE, About.REDUCED, reduced[-1]["main"])
