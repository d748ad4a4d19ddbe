"""Groups the steps of an iteration into beats.

Each computation, copy and collective starts as a beat of its own; if a collective's hops continue
around a computation, its longest run of hops; its other hops join the beats of the computations
between them. Then beats that a lecture would show as one action are merged: the updates of all
units, the calls for one unit, consecutive copies, numbers on which the ranks agree. The start of a
phase belongs to the first beat after it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest

from zerosim.analysis.beats.beat import Beat, Doing, Sign
from zerosim.analysis.beats.doing import doing_of
from zerosim.analysis.beats.fold import folded
from zerosim.analysis.beats.meanwhile import Beside
from zerosim.analysis.beats.part import StepRange
from zerosim.analysis.beats.turns import in_turns
from zerosim.analysis.frames.step import Step

Units = Mapping[str, tuple[str, ...]]
_MARKS = (Sign.BEGIN, Sign.END, Sign.STAND)
_ALWAYS_ONE = (Sign.UPDATE, Sign.COPY, Sign.AGREE)
_BY_UNIT = (Sign.GATHER, Sign.REDUCE, Sign.SEND, Sign.COMBINE, Sign.EXCHANGE)

_NONE: Mapping[int, tuple[str, ...]] = {}
_NO_BUCKETS: Units = {}


def cut(
    steps: Sequence[Step],
    freed: Mapping[int, tuple[str, ...]] = _NONE,
    buckets: Units = _NO_BUCKETS,
) -> tuple[Beat, ...]:
    """The beats of an iteration: every step in exactly one, in the order of the steps.

    Args:
        steps: steps of one iteration, in order.
        freed: by step, the units whose gathered parameters are freed at its end; empty if unknown.
        buckets: by name, the units with elements in the bucket.
    """
    found: list[StepRange] = []
    for part in _parts(steps):
        if found and _goes_on(found[-1], part, buckets):
            found[-1] = found[-1].with_more(part)
        else:
            found.append(part)
    if any(Sign.SEND in part.signs for part in found):
        found = in_turns(found, steps)
    found = folded(found, steps)
    maker = _BeatMaker(steps, freed, buckets)
    return tuple(maker.beat(part) for part in found)


@dataclass(frozen=True, slots=True)
class _Run:
    """Hops of one collective that follow each other, or another step alone."""

    first: int
    last: int
    collective: int | None
    sign: Sign


def _runs(steps: Sequence[Step]) -> list[_Run]:
    def key(numbered: tuple[int, Step]) -> tuple[int | None, int]:
        place, step = numbered
        return step.collective, -1 if step.collective is not None else place

    found = []
    for (collective, _), group in groupby(enumerate(steps), key=key):
        places = [place for place, _ in group]
        found.append(_Run(places[0], places[-1], collective, doing_of(steps[places[0]]).sign))
    return found


def _parts(steps: Sequence[Step]) -> Iterator[StepRange]:
    """A part for each run that makes up a beat, with the steps that belong to it."""
    runs = _runs(steps)
    longest: dict[int, _Run] = {}
    for run in runs:
        if run.collective is not None:
            best = longest.setdefault(run.collective, run)
            if run.last - run.first >= best.last - best.first:
                longest[run.collective] = run
    about: list[tuple[_Run, list[_Run]]] = []
    between: list[_Run] = []
    for run, following in zip_longest(runs, runs[1:]):
        has_nothing = following is None or following.sign in _MARKS
        leads = run.sign is Sign.BEGIN and not has_nothing
        if leads or (run.collective is not None and longest[run.collective] is not run):
            between.append(run)
        else:
            about.append((run, between))
            between = []
    if not about:
        return
    firsts = [_border(led, run, longest) for run, led in about]
    lasts = [first - 1 for first in firsts[1:]] + [len(steps) - 1]
    for (run, led), first, last in zip(about, [0, *firsts[1:]], lasts, strict=True):
        begins = any(one.sign in _MARKS for one in (run, *led))
        yield StepRange(first, last, run.first, (doing_of(steps[run.first]),), begins)


def _border(between: Sequence[_Run], after: _Run, longest: Mapping[int, _Run]) -> int:
    """The start of a part: including the steps that lead to it, after those that end the previous
    part.

    Args:
        between: steps between the two: hops of collectives, and the start of a phase, to which
            later steps belong.
    """
    for run in between:
        if run.sign is Sign.BEGIN:
            return run.first
    ended = [
        run.last + 1
        for run in between
        if run.collective is not None and longest[run.collective].first < run.first
    ]
    return max(ended, default=between[0].first if between else after.first)


def _goes_on(before: StepRange, part: StepRange, buckets: Units) -> bool:
    """Whether a part continues the previous one."""
    if part.begins:
        return False
    ours = before.signs[-1]
    if before.signs != part.signs:
        return False
    if ours in _ALWAYS_ONE:
        return True
    return ours in _BY_UNIT and bool(
        set(_units(before.doings[-1:], buckets)) & set(_units(part.doings, buckets))
        or before.doings[-1] == part.doings[0]
    )


def _units(doings: Sequence[Doing], buckets: Units) -> tuple[str, ...]:
    """The units of these actions, each once."""
    named = (buckets.get(doing.unit, (doing.unit,)) for doing in doings if doing.unit)
    return tuple(dict.fromkeys(unit for units in named for unit in units))


class _BeatMaker:
    """Assigns actions and units to each part."""

    def __init__(
        self, steps: Sequence[Step], freed: Mapping[int, tuple[str, ...]], buckets: Units
    ) -> None:
        self._steps, self._freed, self._buckets = steps, freed, buckets
        self._beside = Beside(steps)
        self._hops: dict[int, list[int]] = defaultdict(list)
        for place, step in enumerate(steps):
            if step.collective is not None:
                self._hops[step.collective].append(place)

    def beat(self, part: StepRange) -> Beat:
        """The beat of a part."""
        step, signs = self._steps[part.main], part.signs
        units = _units(part.doings, self._buckets)
        places = range(part.first, part.last + 1)
        freed = tuple(dict.fromkeys(unit for at in places for unit in self._freed.get(at, ())))
        if Sign.COMPUTE in signs and set(units) & set(freed):
            signs += (Sign.FREE,)
        beside = self._beside.during(part.first, part.last, part.doings)
        return Beat(
            first=part.first,
            last=part.last,
            main=part.main,
            signs=signs,
            units=units,
            turns=tuple(sorted(part.turns.items())),
            is_phase=part.is_phase,
            within=part.within,
            kept=tuple(sorted(part.kept.items())),
            phase=step.phase,
            micro_step=step.micro_step,
            freed=freed,
            meanwhile=tuple(doing for doing in beside if not part.tells_of(doing)),
            is_prefetch=signs == (Sign.GATHER,)
            and step.collective is not None
            and self._beside.is_ahead(self._hops[step.collective]),
        )
