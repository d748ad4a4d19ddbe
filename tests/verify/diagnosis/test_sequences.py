"""Who is at fault in made traces: each rank's calls are written down, one of them wrongly."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest

from zerosim.record import Events, RankTrace, Trace
from zerosim.schema.events import (
    Checksum,
    Event,
    Failure,
    Group,
    Header,
    Held,
    Kind,
    Op,
    Phase,
    Purpose,
)
from zerosim.schema.manifest import Manifest
from zerosim.verify.diagnosis import ProcessStates, Wrong, diagnose

STEPS = 4
UNITS = ("bucket 0", "bucket 1", "bucket 2")
SECOND = 10**9


def calls_of(rank):
    """What a rank calls in order: the reduction of each bucket, in each iteration."""
    return [
        Event(
            id=0, rank=rank, kind=Kind.COLLECTIVE, iteration=step, phase=Phase.BACKWARD,
            unit=unit, op=Op.ALL_REDUCE, purpose=Purpose.REDUCE_GRADIENTS, group="0",
            dtype="float32", elements=100, payload_bytes=400, issue_ns=0,
            source=f"train.py:{40 + number} in step",
        )
        for step in range(STEPS)
        for number, unit in enumerate(UNITS)
    ]  # fmt: skip


def rank_trace(rank, num_ranks, calls, *, complete=True, failure=None, **more):
    """Its calls, numbered, one each millisecond."""
    events = [
        replace(
            one, id=place, sequence=place, issue_ns=place * 10**6, start_ns=place * 10**6,
            end_ns=None if one.end_ns == -1 else place * 10**6 + 1000,
        )
        for place, one in enumerate(calls)
    ]  # fmt: skip
    return RankTrace(
        rank=rank,
        header=Header(
            schema=2, rank=rank, num_ranks=num_ranks, local_rank=rank, host="h", pid=1,
            device="cpu", clock_ns=0, wall_ns=0,
        ),
        events=Events(events),
        groups={"0": Group(name="0", backend="gloo", ranks=tuple(range(num_ranks)))},
        sockets={}, wire_samples=(), metrics=(), failure=failure,
        unfinished=tuple(e.id for e in events if e.end_ns is None),
        num_rows=len(events), complete=complete, **more,
    )  # fmt: skip


def trace_of(ranks, tmp_path):
    manifest = Manifest(
        schema=2, created="", program="train.py", num_ranks=len(ranks), backend="gloo",
        device="cpu", versions={},
    )  # fmt: skip
    return Trace(folder=tmp_path, manifest=manifest, ranks=tuple(ranks), warnings=())


def run_of(change, culprit, num_ranks, tmp_path, **more):
    """A trace in which one rank's calls are changed."""
    ranks = []
    for rank in range(num_ranks):
        calls = calls_of(rank)
        if rank == culprit:
            change(calls)
        ranks.append(rank_trace(rank, num_ranks, calls, **(more if rank == culprit else {})))
    return trace_of(ranks, tmp_path)


def skip(calls):
    del calls[7]


def repeat(calls):
    calls.insert(7, calls[7])


def swap(calls):
    calls[7], calls[8] = calls[8], calls[7]


def shorter(calls):
    calls[7] = replace(calls[7], elements=99, payload_bytes=396)


def other_dtype(calls):
    calls[7] = replace(calls[7], dtype="bfloat16")


def iteration_less(calls):
    del calls[6:9]


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
@pytest.mark.parametrize(
    ("change", "wrong", "unit"),
    [
        (skip, Wrong.LEFT_OUT, "bucket 1"),
        (repeat, Wrong.MORE, "bucket 1"),
        (swap, Wrong.ORDER, "bucket 1"),
        (shorter, Wrong.SIZE, "bucket 1"),
        (other_dtype, Wrong.DTYPE, "bucket 1"),
        (iteration_less, Wrong.LEFT_OUT, "bucket 0"),
    ],
)
def test_the_rank_that_calls_otherwise(change, wrong, unit, num_ranks, tmp_path):
    for culprit in range(num_ranks):
        trace = run_of(change, culprit, num_ranks, tmp_path)
        if change in (shorter, other_dtype) and num_ranks == 2:
            continue  # of sizes see below
        found = diagnose(trace, ProcessStates()).findings[0]
        assert (found.wrong, found.ranks) == (wrong, (culprit,)), found.sentence
        assert (found.place.unit, found.place.iteration) == (unit, 2)
        assert found.place.source in found.sentence


def test_a_unit_that_is_gathered_twice_in_forward_is_not_taken_for_its_gather_in_backward(tmp_path):
    def gathers(rank, order):
        return [
            replace(one, op=Op.ALL_GATHER, phase=phase, unit=unit)
            for one, (phase, unit) in zip(calls_of(rank), order, strict=False)
        ]

    there = [(Phase.FORWARD, unit) for unit in UNITS]
    back = [(Phase.BACKWARD, unit) for unit in reversed(UNITS)]
    begun = [gathers(rank, (there + back)[:2]) for rank in range(3)]
    begun = [[replace(one, iteration=2) for one in calls] for calls in begun]
    begun[1][1] = begun[1][0]
    whole = [replace(one, iteration=1) for one in gathers(0, there + back)]
    ranks = [
        rank_trace(rank, 3, [replace(one, rank=rank) for one in whole] + begun[rank])
        for rank in range(3)
    ]
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.MORE, (1,)), found.sentence
    assert (found.place.unit, found.place.phase) == ("bucket 0", Phase.FORWARD)


@pytest.mark.parametrize("change", [shorter, other_dtype])
def test_of_two_that_differ_in_size_the_one_that_changed_is_told(change, tmp_path):
    for culprit in (0, 1):
        found = diagnose(run_of(change, culprit, 2, tmp_path), ProcessStates()).findings[0]
        assert found.ranks == (culprit,), found.sentence


def test_nothing_is_wrong_where_nothing_is(tmp_path):
    for num_ranks in (1, 2, 4):
        found = diagnose(run_of(lambda calls: None, 0, num_ranks, tmp_path), ProcessStates())
        assert not found.findings
        assert found.headline.startswith("nothing is wrong: ")


def test_a_micro_step_that_a_rank_left_out_is_no_disagreement(tmp_path):
    """It reduced in the first of its micro-steps what the others reduced in their second."""

    def late(calls):
        calls[6:9] = [replace(one, micro_step=1) for one in calls[6:9]]

    assert not diagnose(run_of(late, 0, 2, tmp_path), ProcessStates()).findings


def test_a_forward_of_one_rank_alone_is_made_once_more(tmp_path):
    """It broadcasts two buffers, and once more the first; others are already in backward."""

    def buffers(one, number):
        return replace(
            one, op=Op.BROADCAST, phase=Phase.FORWARD, unit="", elements=number,
            source=f"train.py:{number} in evaluate",
        )  # fmt: skip

    ranks = []
    for rank in range(2):
        calls = []
        for one in calls_of(rank)[:7]:
            if one.unit == UNITS[0]:
                calls += [buffers(one, 7), buffers(one, 1)]
            calls.append(one)
        if rank == 0:
            calls[-1] = buffers(calls[-1], 7)
        ranks.append(rank_trace(rank, 2, calls))
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.MORE, (0,)), found.sentence
    assert found.place.source == "train.py:7 in evaluate"
    assert "model.module" in found.advice


def test_a_thread_that_calls_first_is_no_matter_of_dtypes(tmp_path):
    """Only sizes tell two calls apart that another thread decides the order of."""

    def nameless(calls, *, is_swapped):
        saved = replace(calls[7], unit="", dtype="int64", elements=2, source="thread.py:58 in run")
        calls.insert(7 if is_swapped else 8, saved)

    ranks = []
    for rank in range(2):
        calls = [replace(one, unit="" if rank else one.unit) for one in calls_of(rank)]
        nameless(calls, is_swapped=rank == 1)
        ranks.append(rank_trace(rank, 2, calls))
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates())
    assert found.findings[0].wrong is Wrong.ORDER, found.headline
    assert "needs its own group" in found.findings[0].advice


def test_a_call_that_failed_is_told_although_nobody_is_at_fault(tmp_path):
    trace = run_of(lambda calls: None, 0, 2, tmp_path)
    events = list(trace.ranks[1].events)
    events[7] = replace(events[7], error="Timed out waiting 1000ms")
    broken = replace(trace, ranks=(trace.ranks[0], replace(trace.ranks[1], events=Events(events))))
    found = diagnose(broken, ProcessStates())
    assert not found.findings
    assert found.headline.startswith(
        "no faulty rank found, although the all-reduce of bucket 1 (backward, iteration 2) "
        "of rank 1 failed after 0.0 s (Timed out waiting 1000ms); 24 calls of 2 ranks"
    )


def hangs(calls):
    del calls[7:]


def waiting(rank, num_ranks):
    """It is in the call that another one does not come to."""
    calls = calls_of(rank)[:8]
    calls[7] = replace(calls[7], end_ns=-1)
    return rank_trace(rank, num_ranks, calls, complete=False)


def test_a_rank_that_does_not_come_hangs_when_others_have_waited(tmp_path):
    ranks = [waiting(0, 3), rank_trace(1, 3, calls_of(1)[:7], complete=False), waiting(2, 3)]
    trace = trace_of(ranks, tmp_path)
    alive = dict.fromkeys(range(3), True)
    early = diagnose(trace, ProcessStates(alive, SECOND))
    assert not early.findings
    assert early.is_running
    found = diagnose(trace, ProcessStates(alive, 13 * SECOND)).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.STANDS_STILL, (1,))
    assert "train.py:41 in step" in found.sentence
    assert "ranks 0 and 2 have waited 13 s" in found.sentence
    common = "the all-reduce of bucket 0 (backward, iteration 2)"
    assert f"the last call that all made: {common}" in found.sentence


def test_a_rank_whose_process_is_gone_died(tmp_path):
    ranks = [waiting(0, 3), rank_trace(1, 3, calls_of(1)[:7], complete=False), waiting(2, 3)]
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates({0: True, 1: False, 2: True}, SECOND))
    assert (found.findings[0].wrong, found.findings[0].ranks) == (Wrong.DIED, (1,))
    assert found.findings[0].place.unit == "bucket 1"


def test_a_rank_that_failed_by_itself_comes_before_those_that_it_left_waiting(tmp_path):
    def failure(message, time_ns, *, peer_lost):
        return Failure(
            message=message, iteration=2, phase=Phase.FORWARD, unit="", op=None, purpose=None,
            waiting_for=(), peer_lost=peer_lost, time_ns=time_ns, source="data.py:7 in read",
        )  # fmt: skip

    ranks = [
        replace(waiting(0, 2), failure=failure("closed", 5, peer_lost=True)),
        rank_trace(
            1, 2, calls_of(1)[:6], failure=failure("KeyError: 'x'", 9 * 10**9, peer_lost=False)
        ),
    ]
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.FAILED, (1,))
    assert "data.py:7 in read: KeyError: 'x'" in found.sentence


def test_a_rank_that_ended_while_others_go_on(tmp_path):
    ranks = [waiting(0, 3), rank_trace(1, 3, calls_of(1)[:6]), waiting(2, 3)]
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.ENDED_EARLY, (1,))
    assert found.place.iteration == 2


@pytest.mark.parametrize(
    ("num_calls", "advised", "other"),
    [(12, "a condition on the rank", "number of batches"), (9, "number of batches", "left out")],
)
def test_a_call_beside_the_steps_that_some_ranks_make_is_behind_a_condition(
    num_calls, advised, other, tmp_path
):
    """Rank 0 saves after the last step; the other has done as many steps, or fewer."""
    saves = replace(
        calls_of(0)[-1], phase=Phase.OUTSIDE, unit="", purpose=Purpose.UNLABELLED,
        source="train.py:90 in save", end_ns=-1,
    )  # fmt: skip
    first = rank_trace(0, 2, [*calls_of(0), saves], complete=False)
    ranks = [first, rank_trace(1, 2, calls_of(1)[:num_calls])]
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (Wrong.ENDED_EARLY, (1,))
    assert advised in found.advice
    assert other not in found.advice


def checksum(event, held, digest, largest=None):
    return Checksum(
        held=held, iteration=2, phase=Phase.BACKWARD, unit=UNITS[1], event=event, digest=digest,
        largest=largest, time_ns=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("held", "sound", "broken", "wrong"),
    [
        (Held.GIVEN, (1, 0.5), (1, float("nan")), Wrong.NOT_FINITE),
        (Held.GIVEN, (1, 0.5), (1, 1e30), Wrong.TOO_LARGE),
        (Held.RESULT, (7, None), (8, None), Wrong.DIFFERS),
    ],
)
def test_the_rank_whose_values_differ(held, sound, broken, wrong, tmp_path):
    ranks = [
        rank_trace(
            rank, 3, calls_of(rank),
            checksums=(checksum(7, held, *(broken if rank == 1 else sound)),),
        )
        for rank in range(3)
    ]  # fmt: skip
    found = diagnose(trace_of(ranks, tmp_path), ProcessStates()).findings[0]
    assert (found.wrong, found.ranks) == (wrong, (1,))
    assert (found.place.unit, found.place.iteration) == ("bucket 1", 2)


def test_a_rank_whose_file_comes_between_two_looks_did_not_die(tmp_path, monkeypatch):
    ranks = [waiting(rank, 3) for rank in range(3)]
    looking = import_module("zerosim.verify.diagnosis.diagnose")
    loaded = [trace_of(ranks[1:], tmp_path), trace_of(ranks, tmp_path)]
    monkeypatch.setattr(looking, "load", lambda _: loaded.pop(0))
    monkeypatch.setattr(
        looking, "look", lambda trace: ProcessStates({one.rank: True for one in trace.ranks}, 10**7)
    )
    assert not looking.diagnose_folder(tmp_path).findings


def test_a_rank_that_still_writes_rows_does_not_hang(tmp_path):
    slow = rank_trace(1, 3, calls_of(1)[:7], complete=False)
    slow = replace(slow, header=replace(slow.header, clock_ns=12 * SECOND))
    trace = trace_of([waiting(0, 3), slow, waiting(2, 3)], tmp_path)
    alive = dict.fromkeys(range(3), True)
    assert not diagnose(trace, ProcessStates(alive, 13 * SECOND)).findings
    assert diagnose(trace, ProcessStates(alive, 16 * SECOND)).findings[0].ranks == (1,)
