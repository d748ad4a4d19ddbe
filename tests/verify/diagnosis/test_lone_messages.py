"""Who is at fault in made traces of a pipeline: each rank's messages, one of them wrongly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verify.diagnosis.test_sequences import SECOND, rank_trace, trace_of
from zerosim.schema.events import Event, Kind, Op, Phase, Purpose
from zerosim.verify.diagnosis import ProcessStates, Wrong, diagnose

RANKS, STEPS, MICRO_BATCHES = 3, 4, 3
FORWARD = (Phase.FORWARD, Purpose.SEND_ACTIVATIONS)
BACKWARD = (Phase.BACKWARD, Purpose.SEND_GRADIENTS)


def message(rank, op, peer, step, number, label):
    phase, purpose = label
    return Event(
        id=0, rank=rank, kind=Kind.COLLECTIVE, iteration=step, micro_step=number, phase=phase,
        unit=f"stage {rank}", op=op, purpose=purpose, group="0", peers=(peer,), dtype="float32",
        elements=96, payload_bytes=384, issue_ns=0, source=f"train.py:{40 + rank} in {op}",
    )  # fmt: skip


def messages_of(rank):
    """All forwards, then all backwards, of a stage: what it takes in, then what it passes on."""
    calls = []
    for step in range(STEPS):
        for label, by in ((FORWARD, 1), (BACKWARD, -1)):
            for number in range(MICRO_BATCHES):
                for op, peer in ((Op.RECEIVE, rank - by), (Op.SEND, rank + by)):
                    if 0 <= peer < RANKS:
                        calls.append(message(rank, op, peer, step, number, label))
    return calls


def without_sequence(trace):
    """Messages have none."""
    ranks = [
        replace(one, events=type(one.events)([replace(e, sequence=None) for e in one.events]))
        for one in trace.ranks
    ]
    return replace(trace, ranks=tuple(ranks))


def run_of(changed, tmp_path, **more):
    """A trace in which the calls of some ranks are others."""
    ranks = [
        rank_trace(rank, RANKS, changed.get(rank, messages_of(rank)), **more)
        for rank in range(RANKS)
    ]
    return without_sequence(trace_of(ranks, tmp_path))


def place_of(calls, op, label, number=1, step=2):
    """Where a rank makes this call; None if it never does."""
    wanted = (op, label[1], number, step)
    found = (
        place
        for place, one in enumerate(calls)
        if (one.op, one.purpose, one.micro_step, one.iteration) == wanted
    )
    return next(found, None)


def skip(calls, place):
    del calls[place]


def repeat(calls, place):
    calls.insert(place, calls[place])


def swap(calls, place):
    """With the next one of the same way."""
    way = (calls[place].op, calls[place].peers)
    later = next(n for n in range(place + 1, len(calls)) if (calls[n].op, calls[n].peers) == way)
    calls[place], calls[later] = calls[later], calls[place]


def shorter(calls, place):
    calls[place] = replace(calls[place], elements=93)


def other_dtype(calls, place):
    calls[place] = replace(calls[place], dtype="float64")


def other_peer(calls, place):
    call = calls[place]
    other = next(one for one in range(RANKS) if one not in (call.rank, *call.peers))
    calls[place] = replace(call, peers=(other,))


@pytest.mark.parametrize("label", [FORWARD, BACKWARD])
@pytest.mark.parametrize("op", [Op.SEND, Op.RECEIVE])
@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (skip, Wrong.LEFT_OUT),
        (repeat, Wrong.MORE),
        (swap, Wrong.ORDER),
        (shorter, Wrong.SIZE),
        (other_dtype, Wrong.DTYPE),
        (other_peer, Wrong.PEER),
    ],
)
def test_the_rank_whose_message_is_wrong(change, wrong, op, label, tmp_path):
    tried = 0
    for culprit in range(RANKS):
        calls = messages_of(culprit)
        place = place_of(calls, op, label)
        if place is None:
            continue
        tried += 1
        source = calls[place].source
        change(calls, place)
        found = diagnose(run_of({culprit: calls}, tmp_path), ProcessStates()).findings[0]
        assert (found.wrong, found.ranks) == (wrong, (culprit,)), found.sentence
        told = (found.place.iteration, found.place.op, found.place.unit, found.place.source)
        assert told == (2, op, f"stage {culprit}", source)
        assert "micro-batch 1" in found.sentence
    assert tried == 2


def test_nothing_is_wrong_where_messages_fit(tmp_path):
    found = diagnose(run_of({}, tmp_path), ProcessStates())
    assert not found.findings
    num_messages = STEPS * MICRO_BATCHES * 2 * (RANKS - 1)
    assert f"and {num_messages} messages match" in found.headline


def test_when_a_program_sends_and_receives_may_be_two_iterations(tmp_path):
    """Of messages that no pipeline labels, the ends are not held against each other's moment."""

    def unlabelled(rank):
        late = 1 if rank else 0
        return [
            replace(one, purpose=Purpose.UNLABELLED, iteration=one.iteration + late, micro_step=0)
            for one in messages_of(rank)
        ]

    trace = run_of({rank: unlabelled(rank) for rank in range(RANKS)}, tmp_path)
    assert not diagnose(trace, ProcessStates()).findings


def test_a_trace_that_begins_in_the_midst_fits_from_where_both_ends_have_it(tmp_path):
    calls = messages_of(1)[place_of(messages_of(1), Op.SEND, FORWARD, number=0, step=1) :]
    trace = run_of({1: [one for one in calls if one.iteration > 1]}, tmp_path)
    assert not diagnose(trace, ProcessStates()).findings


def test_of_the_messages_that_others_wait_for_the_first_is_told(tmp_path):
    """Rank 1 stands before it passes micro-batch 1 on; its neighbours are ahead on both ways."""
    upto = {
        rank: place_of(messages_of(rank), op, FORWARD)
        for rank, op in ((0, Op.SEND), (1, Op.SEND), (2, Op.RECEIVE))
    }
    ranks = []
    for rank in range(RANKS):
        calls = messages_of(rank)[: upto[rank] + (rank != 1)]
        if rank != 1:
            calls[-1] = replace(calls[-1], end_ns=-1)
        if rank == 0:
            calls.append(replace(message(0, Op.SEND, 1, 2, 2, FORWARD), end_ns=-1))
        ranks.append(rank_trace(rank, RANKS, calls, complete=False))
    trace = without_sequence(trace_of(ranks, tmp_path))
    alive = dict.fromkeys(range(RANKS), True)
    assert not diagnose(trace, ProcessStates(alive, SECOND)).findings
    found = diagnose(trace, ProcessStates(alive, 13 * SECOND)).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.STANDS_STILL, (1,))
    assert (found.place.op, found.place.iteration) == (Op.SEND, 2), found.sentence
    assert "the send of stage 1 to rank 2 (forward, iteration 2, micro-batch 1)" in found.sentence


def test_a_message_that_was_never_received_names_who_left_without_it(tmp_path):
    calls = messages_of(2)
    del calls[place_of(calls, Op.RECEIVE, FORWARD, number=2, step=STEPS - 1) :]
    found = diagnose(run_of({2: calls}, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.ENDED_EARLY, (2,)), found.sentence


def test_of_ranks_that_wait_in_a_circle_the_one_that_passed_a_message_by_is_told(tmp_path):
    """Nobody labels these: rank 0 sends, rank 1 answers; in iteration 2 rank 0 does not send."""

    def calls_of(rank):
        ops = (Op.SEND, Op.RECEIVE) if rank == 0 else (Op.RECEIVE, Op.SEND)
        one = message(rank, Op.SEND, 1 - rank, 0, 0, FORWARD)
        calls = [
            replace(one, op=op, iteration=step, purpose=Purpose.UNLABELLED)
            for step in range(2)
            for op in ops
        ]
        return [*calls, replace(calls[1 if rank == 0 else 0], iteration=2, end_ns=-1)]

    ranks = [rank_trace(rank, 2, calls_of(rank), complete=False) for rank in range(2)]
    trace = without_sequence(trace_of(ranks, tmp_path))
    found = diagnose(trace, ProcessStates(dict.fromkeys(range(2), True), 13 * SECOND)).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.LEFT_OUT, (0,)), found.sentence
    assert found.place.op == Op.SEND
