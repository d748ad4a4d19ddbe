"""Runs over NCCL that hung on an H100: a call that was made is not one that was done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.recorded_gpu import recorded_on_gpu
from zerosim.record import load
from zerosim.record.eventrows import Events
from zerosim.schema.events import Kind
from zerosim.verify.diagnosis import ProcessStates, Wrong, diagnose

LINE = "models/gpt.py:116 in GPT.logits"


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
