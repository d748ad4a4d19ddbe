"""Runs under one cursor: the moments that they have in common, and each run's step at each.

A program computes in the same order in every stage, so computation is the reference. Communication
is independent; a moment of it is reached when the last run reaches it. A pure function of replay
documents.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any

from zerosim.base.config import STAGE_NAMES, DType
from zerosim.base.errors import ConfigError
from zerosim.base.language import enumerated, listed, term
from zerosim.record.text import name_ranks, one_line
from zerosim.schema.events import Phase
from zerosim.theory import stage_states
from zerosim.view.replay.following import Following
from zerosim.view.replay.moments import (
    ComparedMoment,
    Document,
    Happenings,
    What,
    happenings,
    last_step,
    say,
)
from zerosim.view.replay.names import titles_of
from zerosim.view.replay.step_sentences import texts as words_of_steps

FEWEST, MOST = 2, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedRun:
    """One of the runs.

    Attributes:
        name: the name of its trace.
        title: its distinguishing title: "ZeRO-3", "ZeRO-3 · gloo".
        law, law_bytes: those of its model states on a rank; "" and None without a law.
        steps: by moment.
        came: by moment, whether the run reached it; otherwise it waits at the previous step.
        follows: by moment, its next action.
    """

    name: str
    title: str
    law: str
    law_bytes: float | None
    steps: tuple[int, ...]
    came: tuple[bool, ...]
    follows: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Some runs, aligned.

    Attributes:
        titles, whats: by moment, a headline and its meaning.
        ranks: global ranks common to all runs.
        notes: information for the reader.
    """

    moments: tuple[ComparedMoment, ...]
    titles: tuple[str, ...]
    whats: tuple[str, ...]
    runs: tuple[AlignedRun, ...]
    ranks: tuple[int, ...]
    notes: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """As JSON values; `types.d.ts` describes them."""
        return asdict(self)


def align(documents: Sequence[Document]) -> Alignment:
    """Align the replays of two to four runs.

    Args:
        documents: as `replay_document` makes them.

    Raises:
        ConfigError: they are too few or too many, or have no rank in common.
    """
    if not FEWEST <= len(documents) <= MOST:
        raise _refusal("count", count=len(documents), fewest=FEWEST, most=MOST)
    ranks = tuple(sorted(set.intersection(*({*one["ranks"]} for one in documents))))
    if not ranks:
        names = ", ".join(one["name"] for one in documents)
        raise _refusal("ranks", names=names)
    found, moments, notes = _ordered([happenings(document) for document in documents])
    accumulates = max(one["run"]["accumulate"] for one in documents) > 1
    titles, whats = zip(*(_words(moment, accumulates) for moment in moments), strict=True)
    return Alignment(
        moments=moments,
        titles=titles,
        whats=whats,
        runs=tuple(
            _aligned(document, own, moments, title)
            for document, own, title in zip(documents, found, titles_of(documents), strict=True)
        ),
        ranks=ranks,
        notes=(*notes, *_notes(documents, found, ranks)),
    )


def _refusal(why: str, **fields: object) -> ConfigError:
    return ConfigError(one_line(say("error", why, **fields)))


# -------------------------------------------------------------------------------- the order


def _ordered(
    found: list[Happenings],
) -> tuple[list[Happenings], tuple[ComparedMoment, ...], list[str]]:
    """The aligned moments, in one order, and notes: runs with different unit orders share
    phases.
    """
    units = [{one.moment.unit for one in own.program} - {""} for own in found]
    notes = [] if all(own == units[0] for own in units) else [say("note", "units")]
    moments = _order(found)
    if moments is None:  # owners update their units side by side, hence in no order
        found = [
            replace(own, program=tuple(one for one in own.program if not _updates(one.moment)))
            for own in found
        ]
        moments = _order(found)
    if moments is None:
        found = [
            Happenings(tuple(one for one in own.program if not one.moment.unit), ())
            for own in found
        ]
        moments, notes = _order(found), [say("note", "order")]
    if moments is None:
        raise _refusal("order")
    return found, moments, notes


def _updates(moment: ComparedMoment) -> bool:
    return moment.phase is Phase.UPDATE and bool(moment.unit)


def _order(found: Sequence[Happenings]) -> tuple[ComparedMoment, ...] | None:
    """All moments of all runs, each once, in an order consistent with every run's program.

    None if there is no such order.
    """
    program = _merge([[one.moment for one in own.program] for own in found])
    if program is None:
        return None
    place = {moment: number for number, moment in enumerate(program)}
    # the last moment of the program that some run had reached at this arrival
    after: dict[ComparedMoment, int] = {}
    for own in found:
        steps = [one.step for one in own.program]
        for one in own.communication:
            # moments that begin at the same step begin after this one
            passed = bisect_left(steps, one.step) - 1
            slot = place[own.program[passed].moment] if passed >= 0 else -1
            after[one.moment] = max(slot, after.get(one.moment, -1))
    ordered = sorted(after, key=after.__getitem__)
    keyed = [(float(number), 0, moment) for number, moment in enumerate(program)]
    keyed += [(float(after[moment]), 1 + k, moment) for k, moment in enumerate(ordered)]
    keyed.sort(key=lambda one: one[:2])
    return tuple(moment for *_, moment in keyed)


def _merge(programs: Sequence[Sequence[ComparedMoment]]) -> list[ComparedMoment] | None:
    """One order of all moments consistent with each program; None if there is none."""
    first_seen: dict[ComparedMoment, int] = {}
    following: dict[ComparedMoment, set[ComparedMoment]] = {}
    waiting: dict[ComparedMoment, int] = {}
    for program in programs:
        for moment in program:
            first_seen.setdefault(moment, len(first_seen))
            following.setdefault(moment, set())
            waiting.setdefault(moment, 0)
        for before, after in pairwise(program):
            if after not in following[before]:
                following[before].add(after)
                waiting[after] += 1
    ready = [(place, moment) for moment, place in first_seen.items() if not waiting[moment]]
    ready.sort()
    merged = []
    while ready:
        _, moment = heappop(ready)
        merged.append(moment)
        for after in following[moment]:
            waiting[after] -= 1
            if not waiting[after]:
                heappush(ready, (first_seen[after], after))
    return merged if len(merged) == len(first_seen) else None


# --------------------------------------------------------------------------------- one run


def _aligned(
    document: Document, own: Happenings, moments: Sequence[ComparedMoment], title: str
) -> AlignedRun:
    step_of = {one.moment: one.step for one in (*own.program, *own.communication)}
    is_whole = _is_whole(own)
    last_own = max((k for k, moment in enumerate(moments) if moment in step_of), default=-1)
    following = Following(document)
    steps, came, follows = [], [], []
    at = 0
    for number, moment in enumerate(moments):
        has_it = moment in step_of
        at = max(at, step_of.get(moment, 0))
        if has_it:
            words = following.say(moment, at)
        elif is_whole or number < last_own:
            words = following.absent(moment)
        else:
            words = say("next", "ended")
        steps.append(at)
        came.append(has_it)
        follows.append(words)
    law, law_bytes = _law(document)
    return AlignedRun(
        name=document["name"],
        title=title,
        law=law,
        law_bytes=law_bytes,
        steps=tuple(steps),
        came=tuple(came),
        follows=tuple(follows),
    )


def _is_whole(own: Happenings) -> bool:
    return any(one.moment.what is What.OVER for one in own.program)


def _law(document: Document) -> tuple[str, float | None]:
    run, memory = document["run"], document["memory"]
    laws: list[Any] = [] if memory is None else memory["laws"]
    if len(laws) > 1:  # one per tier; the number is the device's
        parts = [
            say("note", "law", law=one["law"], tier=term(one["tier"]))
            for one in laws
            if one["law_bytes"]
        ]
        return " · ".join(parts), laws[0]["law_bytes"]
    if run["stage"] < 0 and memory is not None:
        return memory["law"], memory["law_bytes"]
    if run["stage"] not in STAGE_NAMES or run["dtype"] not in list(DType):
        return "", None
    dtype = DType(run["dtype"])
    elements = sum(unit["elements"] for unit in document["units"])
    states = stage_states(run["stage"], run["num_ranks"], elements, dtype)
    return states.law(), float(states.law_bytes())


# ------------------------------------------------------------------------------------ words


def _words(moment: ComparedMoment, accumulates: bool) -> tuple[str, str]:
    in_micro_step = accumulates and moment.phase in (Phase.FORWARD, Phase.BACKWARD)
    fields = {
        "phase": words_of_steps()["phase"][moment.phase],
        "unit": moment.unit,
        "micro_step": say("micro_step", "in", number=moment.micro_step + 1)
        if in_micro_step
        else "",
    }
    path = (moment.what,) if not moment.unit else (moment.phase, moment.what)
    return say("title", *path, **fields), say("what", *path, **fields)


def _notes(
    documents: Sequence[Document], found: Sequence[Happenings], ranks: Sequence[int]
) -> tuple[str, ...]:
    notes = []
    runs = [document["run"] for document in documents]
    for key, name in (("num_ranks", "ranks"), ("accumulate", "micro_steps"), ("dtype", "dtype")):
        sizes = [str(run[key]) for run in runs]
        if len({*sizes}) > 1 and all(sizes):  # an unknown one differs from nothing
            notes.append(say("note", name, sizes=listed(sizes), common=name_ranks(ranks)))
    incomplete = [one["name"] for one in documents if not one["run"]["complete"]]
    if incomplete and len({run["iteration"] for run in runs}) > 1:
        shown = enumerated(str(run["iteration"]) for run in runs)
        notes.append(say("note", "iterations", names=enumerated(incomplete), sizes=shown))
    for document, own in zip(documents, found, strict=True):
        name, broken = document["name"], document["broken"]
        if broken:
            step = last_step(document) + 1
            notes.append(say("note", "broken", name=name, step=step, reason=broken["reason"]))
        elif not _is_whole(own):
            notes.append(say("note", "ended", name=name))
        notes += [say("note", "of_run", name=name, note=note) for note in document["notes"]]
    return tuple(notes)
