"""Ranks that failed, died, or ended because of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from zerosim.schema.events import Event
from zerosim.verify.diagnosis import wording
from zerosim.verify.diagnosis.calls import (
    Disagreement,
)
from zerosim.verify.diagnosis.evidence import (
    ObservedRun,
    advice,
    called_by,
    common,
    next_of,
    sides,
    waited_ns,
    waits,
)
from zerosim.verify.diagnosis.findings import Finding, Place, Wrong
from zerosim.verify.diagnosis.ranks import RankState, moment_of

_CLOSED = re.compile(r"\[([0-9a-fA-F.:]+)\]:(\d+)")


def ended_by_themselves(run: ObservedRun, found: Sequence[Disagreement]) -> Iterator[Finding]:
    """Ranks that failed or died independently of others, in order of time."""
    failed = [state for state in run.states.values() if state.failed_by_itself]
    failed.sort(key=lambda state: state.failure.time_ns if state.failure else 0)
    died = [s for s in run.states.values() if s.is_gone and not s.stood_still]
    lost = any(
        state.failure is not None and state.failure.peer_lost for state in run.states.values()
    )
    if died and not failed:
        yield from _died(run, died, found, is_lost=lost)
        return
    for state in failed[:1]:
        yield _failed(run, state, found)


def _failed(run: ObservedRun, state: RankState, found: Sequence[Disagreement]) -> Finding:
    assert state.failure is not None
    lacks = next_of(state.rank, found)
    fields = {
        "rank": state.rank,
        "place": wording.place(state.failure),
        "at": wording.at(state.failure.source),
        "message": state.failure.message,
    }
    if lacks is not None and lacks.expected is not None:
        expected = lacks.expected
        if moment_of(expected)[:3] < moment_of(state.failure)[:3] and _passed(expected, state):
            return Finding(
                wrong=Wrong.LEFT_OUT,
                ranks=(state.rank,),
                place=Place.of(expected),
                sentence=wording.joined(
                    [
                        wording.said(
                            "endings.left_out",
                            call=wording.call(expected),
                            by=called_by(lacks, expected),
                            **fields,
                        ),
                        waits(run, lacks),
                        common(lacks),
                    ]
                ),
                evidence=tuple(sides(lacks)),
                advice=advice(Wrong.LEFT_OUT),
            )
    where = Place(
        iteration=state.failure.iteration,
        phase=state.failure.phase.value,
        unit=state.failure.unit,
        op="" if state.failure.op is None else state.failure.op.value,
        source=_last_source(state),
    )
    awaited = "" if lacks is None else waits(run, lacks)
    if lacks is not None and lacks.expected is not None:
        where = replace(Place.of(lacks.expected), source=where.source or lacks.expected.source)
        came_to = wording.call(lacks.expected)
        awaited = wording.said("endings.never_came", call=came_to, waited=awaited)
    return Finding(
        wrong=Wrong.FAILED,
        ranks=(state.rank,),
        place=where,
        sentence=wording.joined(
            [
                wording.said("endings.failed", **fields),
                awaited,
                "" if lacks is None else common(lacks),
            ]
        ),
        evidence=() if lacks is None else tuple(sides(lacks)),
        advice=advice("own_traceback" if lacks is None else "traceback"),
    )


def _passed(expected: Event, state: RankState) -> bool:
    """Whether a rank was past the phase of a call when it failed."""
    assert state.failure is not None
    there, here = moment_of(expected), moment_of(state.failure)
    return here[0] > there[0] or (here[:2] == there[:2] and here[2] > there[2])


def _last_source(state: RankState) -> str:
    if state.failure is not None and state.failure.source:
        return state.failure.source
    opened = state.open_calls
    if opened:
        return opened[-1].source
    return ""


def _died(
    run: ObservedRun, died: Sequence[RankState], found: Sequence[Disagreement], *, is_lost: bool
) -> Iterator[Finding]:
    """Ranks that left no word: killed, or ended from outside with all others."""
    everybody = len(died) == len(run.states)
    awaited = [
        state for state in died if any(state.rank in one.lacking and one.called for one in found)
    ]
    closed = [run.states[rank] for rank in _closed_by(run) if rank in run.states]
    suspects = [state for state in closed if state in died] or (
        awaited if len(awaited) < len(run.states) else []
    )
    if everybody and not is_lost:
        # all were killed; one that others had waited for long had ended before
        suspects = [
            state
            for state in awaited
            for one in found
            if state.rank in one.lacking and waited_ns(run, one) > run.patience_s * 1e9
        ]
    elif not suspects and is_lost:
        suspects = sorted(died, key=lambda state: state.last_ns)[:1]
    elif not suspects:
        suspects = list(died) if not everybody else []
    if not suspects:
        return
    first = min(suspects, key=lambda state: state.last_ns)
    lacks = next_of(first.rank, found)
    call = lacks.expected if lacks is not None and lacks.expected is not None else None
    inside = first.open_calls[:1]
    where = wording.place(first.trace.wire_samples[-1]) if first.trace.wire_samples else ""
    about = call or (inside[0] if inside else None)
    doing = wording.said("endings.at_place", place=where) if where else ""
    if call is not None:
        at = wording.at(call.source)
        doing += wording.said("endings.before", call=wording.call(call), at=at)
    elif inside:
        at = wording.at(inside[0].source)
        doing += wording.said("endings.inside", call=wording.call(inside[0]), at=at)
    yield Finding(
        wrong=Wrong.DIED,
        ranks=(first.rank,),
        place=Place() if about is None else Place.of(about),
        sentence=wording.joined(
            [
                wording.said("endings.died", rank=first.rank, doing=doing),
                "" if lacks is None else waits(run, lacks),
                "" if lacks is None else common(lacks),
            ]
        ),
        advice=advice("killed"),
    )


def _closed_by(run: ObservedRun) -> list[int]:
    """The ranks whose connections others saw closed, those without a message first."""
    addresses = {
        socket.local: state.rank
        for state in run.states.values()
        for socket in state.trace.sockets.values()
    }
    found = []
    for state in run.states.values():
        texts = [state.failure.message] if state.failure is not None else []
        texts += [event.error for event in _failed_calls(state)]
        for text in texts:
            for host, port in _CLOSED.findall(text) if "losed" in text else ():
                rank = addresses.get(f"{host}:{port}")
                if rank is not None and run.states[rank].failure is None:
                    found.append(rank)
    return list(dict.fromkeys(found))


def _failed_calls(state: RankState) -> Iterator[Event]:
    for place, error in enumerate(state.trace.events.column("error")):
        if error:
            yield state.trace.events[place]


def lost(run: ObservedRun) -> Iterator[Finding]:
    """Ranks that failed because of others, if no culprit was found."""
    failed = [state for state in run.states.values() if state.failure is not None]
    if not failed:
        return
    failed.sort(key=lambda state: state.failure.time_ns if state.failure else 0)
    first = failed[0]
    assert first.failure is not None
    going_on = [s for s in run.states.values() if s.alive and s.failure is None and not s.has_ended]
    if going_on and run.until_ns - first.failure.time_ns < run.patience_s * 1e9:
        return  # the culprit may be about to end
    waited = first.failure.waiting_for
    unknown = sorted(set(range(run.trace.manifest.num_ranks)) - set(run.states))
    ranks = tuple(unknown) or (first.rank,)
    yield Finding(
        wrong=Wrong.FAILED,
        ranks=ranks,
        place=Place(
            iteration=first.failure.iteration,
            phase=first.failure.phase.value,
            unit=first.failure.unit,
            op="" if first.failure.op is None else first.failure.op.value,
        ),
        sentence=wording.joined(
            [
                wording.said(
                    "endings.first",
                    rank=first.rank,
                    place=wording.place(first.failure),
                    message=first.failure.message,
                ),
                wording.said("endings.was_waiting", ranks=wording.ranks(waited)) if waited else "",
                wording.said("endings.no_trace", ranks=wording.ranks(unknown)) if unknown else "",
            ]
        ),
        advice=advice("own_traceback"),
    )
