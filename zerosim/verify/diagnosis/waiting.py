"""Ranks that others wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from zerosim.base.language import clauses
from zerosim.schema.events import Event, Phase
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import (
    Disagreement,
    is_after_steps,
)
from zerosim.verify.diagnosis.differing import MESSAGES
from zerosim.verify.diagnosis.evidence import (
    ObservedRun,
    advice,
    called_by,
    common,
    sides,
    waited_ns,
    waits,
)
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong
from zerosim.verify.diagnosis.ranks import RankState, moment_of


def is_blocked(run: ObservedRun, found: Disagreement, all_found: Sequence[Disagreement]) -> bool:
    """Whether ranks that lack a call are in another one that cannot end."""
    culprits = found.culprits or found.lacking
    return (
        bool(culprits)
        and all(
            any(
                rank in other.called
                and any(event.id == other.called[rank].id for event in run.states[rank].open_calls)
                for other in all_found
                if other is not found
            )
            for rank in culprits
            if rank in run.states
        )
        and any(rank in run.states for rank in culprits)
    )


def missing(run: ObservedRun, found: Disagreement) -> Finding | None:
    """A call that some ranks have not reached while others wait; None if that may be harmless."""
    expected = found.expected or next(iter(found.called.values()))
    culprits = found.lacking
    for_ns = waited_ns(run, found)
    states = [run.states[rank] for rank in culprits if rank in run.states]
    unseen = [rank for rank in culprits if rank not in run.states]
    ended = [state for state in states if state.has_ended]
    is_short = for_ns < run.patience_s * 1e9 and not (for_ns and run.is_cut_off)
    if not ended and is_short:
        return None
    blamed = tuple(state.rank for state in ended) or culprits
    wrong, deed = Wrong.STANDS_STILL, "waiting.not_called"
    how = ""
    if ended:
        wrong, deed = Wrong.ENDED_EARLY, "waiting.ended"
    elif states and not _is_beyond(states[0], expected) and goes_on(run, states[0]):
        return None
    elif unseen and not states:
        wrong, deed = Wrong.DIED, "waiting.no_trace"
    else:
        first = states[0]
        if first.moment > moment_of(expected) and _is_beyond(first, expected):
            wrong, deed = Wrong.LEFT_OUT, "waiting.never"
            where = wording.place(first.trace.wire_samples[-1])
            how = wording.said("waiting.went_on", place=where)
        how = clauses(filter(None, [how, _stands(first)]))
    return Finding(
        wrong=wrong,
        ranks=blamed,
        place=Place.of(expected),
        sentence=wording.joined(
            [
                wording.said(
                    deed,
                    ranks=wording.ranks(blamed),
                    call=wording.call(expected),
                    by=called_by(found, expected),
                    **wording.forms(culprits),
                ),
                how,
                waits(run, found),
                common(found),
            ]
        ),
        evidence=tuple(sides(found)),
        advice=_advice(wrong, found, expected),
    )


def _advice(wrong: Wrong, found: Disagreement, expected: Event) -> str:
    """Advice: a call outside of the steps, such as a checkpoint, may depend on a condition.

    This is assumed if ranks that ended without it did as many iterations as those that called it.
    """
    if wrong is not Wrong.ENDED_EARLY or not is_after_steps(expected):
        return advice(wrong)
    own = (found.group.calls[rank] for rank in found.lacking)
    did_as_many = all(calls and calls[-1].iteration >= expected.iteration for calls in own)
    return advice("some_ranks_call" if did_as_many else "some_ranks_call_or_batches")


def goes_on(run: ObservedRun, state: RankState) -> bool:
    """Whether a rank has written rows recently: it is slow, or waits for a slow rank."""
    return run.until_ns - state.last_ns < run.patience_s * 1e9 and not state.is_cut_off


def _is_beyond(state: RankState, expected: Event) -> bool:
    there, here = moment_of(expected), state.moment
    if expected.op in MESSAGES:  # micro-batches take turns
        return here[0] > there[0]
    if here[0] != there[0] or here[1] != there[1]:
        return here[:2] > there[:2]
    return here[2] > there[2] and expected.phase is not Phase.OUTSIDE


def _stands(state: RankState) -> str:
    if state.standing:
        return wording.said("waiting.stands", where=state.standing[0])
    computing = [event for event in state.open_events if event.op is None]
    if computing:
        return wording.said("waiting.computes", unit=computing[-1].unit)
    if state.open_calls:
        return wording.said("waiting.is_in", call=wording.call(state.open_calls[0]))
    return ""


def at_the_end(run: ObservedRun, found: Disagreement) -> Finding | None:
    """A rank that has ended its steps, and waits for the others in a call after them."""
    wanted = found.expected or next(iter(found.called.values()))
    if is_after_steps(wanted) or found.group.is_way:
        return None
    for rank in found.lacking:
        calls = run.states[rank].open_calls if rank in run.states else []
        if not calls or not is_after_steps(calls[0]) or calls[0].iteration >= wanted.iteration:
            continue
        return Finding(
            wrong=Wrong.ENDED_EARLY,
            ranks=(rank,),
            place=Place.of(wanted),
            sentence=wording.joined(
                [
                    wording.said(
                        "calls.at_end",
                        rank=rank,
                        wanted=wording.call(wanted),
                        ranks=wording.ranks(found.called),
                        source=wording.line(wanted),
                        call=wording.call(calls[0]),
                        at=wording.at(calls[0].source),
                    ),
                    waits(run, found),
                    common(found),
                ]
            ),
            evidence=tuple(sides(found)),
            advice=advice("some_ranks_call_or_batches"),
        )
    return None


def _alone(run: ObservedRun, ranks: Iterable[int]) -> tuple[int, ...]:
    """The only rank in a different call than all the others; none if there is no such rank."""
    inside: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rank in ranks:
        call = run.states[rank].open_calls[0]
        inside[call.op, call.group, call.sequence].append(rank)
    few, *others = sorted(inside.values(), key=len)
    is_one = len(few) == 1 and len(others) == 1 and len(others[0]) > 1
    return tuple(few) if is_one else ()


def crossed(run: ObservedRun, waiting: Sequence[Disagreement]) -> Finding:
    """Ranks that wait for each other in a cycle: none can continue."""
    steps = []
    blamed: dict[int, None] = {}
    for one in waiting:
        for rank in one.culprits or one.lacking:
            if rank in run.states and run.states[rank].open_calls:
                inside = run.states[rank].open_calls[0]
                wanted = one.expected or next(iter(one.called.values()))
                steps.append(
                    wording.said(
                        "calls.in_circle",
                        rank=rank,
                        call=wording.call(inside),
                        at=wording.at(inside.source),
                        wanted=wording.short_call(wanted),
                        ranks=wording.ranks(one.called),
                        **wording.forms([*one.called]),
                    )
                )
                blamed[rank] = None
    first = waiting[0]
    about = first.expected or next(iter(first.called.values()))
    alone = _alone(run, blamed)
    if alone:
        steps.insert(0, wording.said("calls.alone", ranks=wording.ranks(alone)))
    return Finding(
        wrong=Wrong.CROSSED,
        ranks=alone or tuple(blamed),
        place=Place.of(about),
        sentence=wording.joined([wording.said("calls.circle", steps=clauses(steps))]),
        evidence=tuple(steps),
        advice=advice(Wrong.ORDER),
    )
