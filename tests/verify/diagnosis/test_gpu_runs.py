"""Runs over NCCL that hung on an H100: a call that was made is not one that was done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.recorded_gpu import recorded_on_gpu
from zerosim.record import RankTrace, Trace, load
from zerosim.record.eventrows import Events
from zerosim.schema.events import Event, Kind, Standstill
from zerosim.verify.diagnosis import ProcessStates, Wrong, diagnose

LINE = "models/gpt.py:116 in GPT.logits"
AHEAD = 17
"""So many calls the host had gone on in the recorded runs."""


@pytest.mark.parametrize(
    ("fault", "wrong", "words"),
    [
        ("hang", Wrong.STANDS_STILL, f"rank 0 called from {LINE}; it is in {LINE}"),
        ("skip", Wrong.LEFT_OUT, f"rank 0 called from {LINE}; it continued to the all-gather of"),
    ],
)
def test_who_hangs_is_named_with_call_and_line(fault, wrong, words, tmp_path):
    """The host of rank 0 had gone on to 17 collectives more, none of which the device had done."""
    found = diagnose(load(recorded_on_gpu(f"fault-{fault}", tmp_path)), ProcessStates())
    (first,) = found.findings
    assert (first.wrong, first.ranks) == (wrong, (1,))
    assert (first.place.iteration, first.place.phase, first.place.unit) == (
        1,
        "forward",
        "embedding",
    )
    assert first.place.source == LINE
    assert words in first.sentence


def test_a_run_that_was_cut_off_is_never_said_to_be_right(tmp_path):
    """All called alike; what the device had not done is the place to look."""
    trace = load(recorded_on_gpu("stage-3", tmp_path))
    ranks = []
    for rank in trace.ranks:
        calls = [event for _, event in rank.events.of_kind(Kind.COLLECTIVE)]
        done = {event.id for event in calls[:50]}
        events = [
            replace(event, device_begin_ns=event.issue_ns, device_end_ns=event.issue_ns + 9)
            if event.id in done
            else event
            for event in rank.events
        ]
        ranks.append(replace(rank, complete=False, events=Events(events)))
    found = diagnose(replace(trace, ranks=tuple(ranks)), ProcessStates())
    assert not found.findings
    assert "nothing is wrong" not in found.headline
    assert "the recording of ranks 0 and 1 stops without an end row" in found.headline
    assert "is the first call that the device may not have finished" in found.headline


def calls_of(rank: RankTrace) -> list[Event]:
    return [one for _, one in rank.events.of_kind(Kind.COLLECTIVE) if one.parent is None]


def cut_off(rank: RankTrace, until_ns: int, without: Event | None = None) -> RankTrace:
    """A rank that hung from a time on until it was ended, and may have skipped a call."""
    events = []
    for one in rank.events:
        if one.issue_ns >= until_ns or (without and without.id in (one.id, one.parent)):
            continue
        is_later = without and one.sequence is not None and one.sequence > without.sequence
        is_over = one.end_ns is not None and one.end_ns < until_ns
        events.append(
            replace(
                one,
                end_ns=one.end_ns if is_over else None,
                sequence=one.sequence - 1 if is_later else one.sequence,
            )
        )
    still = Standstill(since_ns=until_ns, time_ns=until_ns + 2 * 10**9, stack=(LINE,), call=None)
    return replace(
        rank,
        complete=False,
        events=Events(events),
        unfinished=tuple(one.id for one in events if one.end_ns is None),
        wire_samples=[one for one in rank.wire_samples if one.time_ns < until_ns],
        standstills=(still,),
    )


def faulty(trace: Trace, kind: str) -> Iterator[tuple[int, Event, Trace]]:
    """Each call of an iteration, left out by each rank in turn, or never reached."""
    for culprit in trace.ranks:
        for place, call in enumerate(calls_of(culprit)):
            if call.iteration != 1:
                continue
            ranks = []
            for rank in trace.ranks:
                mine, is_culprit = calls_of(rank), rank is culprit
                hangs = is_culprit and kind == "hang"
                until_ns = mine[place if hangs else min(place + AHEAD, len(mine) - 1)].issue_ns
                ranks.append(cut_off(rank, until_ns, call if is_culprit and not hangs else None))
            yield culprit.rank, call, replace(trace, ranks=tuple(ranks))


@pytest.mark.parametrize("name", ["stage-0", "stage-2", "stage-3", "fsdp2"])
@pytest.mark.parametrize("kind", ["hang", "skip"])
def test_who_hangs_is_named_at_whichever_call(kind, name, tmp_path):
    """The last call of a phase as well, whose place the first one of the next takes."""
    for culprit, call, trace in faulty(load(recorded_on_gpu(name, tmp_path)), kind):
        (found, *_) = diagnose(trace, ProcessStates()).findings
        assert found.wrong is (Wrong.STANDS_STILL if kind == "hang" else Wrong.LEFT_OUT)
        assert found.ranks == (culprit,)
        place = found.place
        assert (place.iteration, place.phase, place.unit) == (1, call.phase, call.unit)
        assert (place.op, place.source) == (call.op, call.source)
