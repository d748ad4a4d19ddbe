"""Calls of several ranks become collectives; what does not fit becomes data."""

import dataclasses
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies as draw
from tests.record.samples import GROUP, call, stop, write_calls
from zerosim.base.errors import TraceError
from zerosim.record import (
    CollectiveKey,
    MismatchKind,
    load,
    match_collectives,
)
from zerosim.schema.events import Group, Kind, Op
from zerosim.verify.verdicts import matching_verdict


def message(rank, place, op, peer, **fields):
    return call(rank, place, op, **{"peers": (peer,), "sequence": None} | fields)


def matching(folder, calls, groups=None):
    return match_collectives(load(write_calls(folder, calls, groups), strict=True))


def only(found):
    (mismatch,) = found.mismatches
    assert len(mismatch.message.splitlines()) == 1
    return mismatch


def test_calls_match_by_position_in_the_group(tmp_path):
    calls = [[call(rank, 0), call(rank, 1, Op.REDUCE_SCATTER)] for rank in range(3)]
    found = matching(tmp_path, calls)
    assert found.mismatches == ()
    assert [(c.key, c.op, c.complete) for c in found.collectives] == [
        (CollectiveKey((0, 1, 2), GROUP, 0), Op.ALL_GATHER, True),
        (CollectiveKey((0, 1, 2), GROUP, 1), Op.REDUCE_SCATTER, True),
    ]
    for place, collective in enumerate(found.collectives):
        assert collective.events == {rank: calls[rank][place] for rank in range(3)}


def test_groups_of_one_name_differ_by_their_ranks(tmp_path):
    calls = [[call(rank, 0)] for rank in range(4)]
    rows = {}
    for rank in range(4):
        mine = Group(name=GROUP, backend="gloo", ranks=(0, 1) if rank < 2 else (3, 2))
        rows[rank] = [("header", draw.header(rank, 4)), ("group", mine), ("event", calls[rank][0])]
    found = match_collectives(load(draw.write_trace(tmp_path, rows)))
    assert found.mismatches == ()
    assert [c.key.ranks for c in found.collectives] == [(0, 1), (2, 3)]


def test_what_is_not_a_call_of_its_own_is_left_out(tmp_path):
    hop = dataclasses.replace(call(0, 1), parent=0)
    compute = dataclasses.replace(call(0, 2), kind=Kind.COMPUTE, op=None)
    found = matching(tmp_path, [[call(0, 0), hop, compute], [call(1, 0)]])
    assert len(found.collectives) == 1
    assert found.mismatches == ()


def test_another_operation(tmp_path):
    calls = [[call(rank, 0)] for rank in range(3)]
    calls.append([call(3, 0, Op.REDUCE_SCATTER, unit="head", source="other.py:9 in f")])
    found = matching(tmp_path, calls)
    mismatch = only(found)
    assert mismatch.kind is MismatchKind.OP
    assert mismatch.ranks == (0, 1, 2, 3)
    assert mismatch.key == found.collectives[0].key
    assert mismatch.message == (
        "collective 0 of group 'dp': op: "
        "ranks 0-2: all-gather of blocks.0, 4096 B bfloat16 at train.py:0 in step; "
        "rank 3: reduce-scatter of head, 4096 B bfloat16 at other.py:9 in f"
    )


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"dtype": "float32"}, MismatchKind.DTYPE),
        ({"payload_bytes": 8192}, MismatchKind.PAYLOAD),
    ],
)
def test_another_dtype_or_payload(tmp_path, fields, kind):
    mismatch = only(matching(tmp_path, [[call(0, 0)], [call(1, 0, **fields)]]))
    assert (mismatch.kind, mismatch.ranks) == (kind, (0, 1))
    assert str(next(iter(fields.values()))) in mismatch.message


def test_what_may_differ(tmp_path):
    calls = [
        [
            call(rank, 0, Op.ALL_TO_ALL, payload_bytes=rank),
            call(rank, 1, Op.BARRIER, dtype=str(rank)),
        ]
        for rank in range(2)
    ]
    assert matching(tmp_path, calls).mismatches == ()


def test_a_rank_that_never_called(tmp_path):
    found = matching(tmp_path, [[call(0, 0), call(0, 1)], [call(1, 0), call(1, 1)], [call(2, 0)]])
    mismatch = only(found)
    assert mismatch.kind is MismatchKind.MISSING
    assert mismatch.ranks == (2,)
    assert mismatch.message.endswith("train.py:1 in step; rank 2: no such call")
    assert [collective.complete for collective in found.collectives] == [True, False]


def test_a_rank_that_stopped_is_told_from_one_that_never_called(tmp_path):
    calls = [[call(rank, 0), call(rank, 1)] for rank in range(4)]
    del calls[3][1]
    folder = write_calls(tmp_path, calls)
    stop(folder, 2, 3)  # header, group, first call
    (folder / "rank-1.jsonl").unlink()
    found = match_collectives(load(folder))
    assert [(m.kind, m.ranks, m.key.sequence) for m in found.mismatches] == [
        (MismatchKind.STOPPED, (1,), 0),
        (MismatchKind.MISSING, (3,), 1),
        (MismatchKind.STOPPED, (1, 2), 1),
    ]
    assert found.mismatches[-1].message.endswith("ranks 1-2: stopped before it")


def test_two_calls_at_one_position(tmp_path):
    second = dataclasses.replace(call(0, 1), sequence=0)
    found = matching(tmp_path, [[call(0, 0), second], [call(1, 0)]])
    mismatch = only(found)
    assert (mismatch.kind, mismatch.ranks) == (MismatchKind.DUPLICATE, (0,))
    assert "rank 0 called it twice" in mismatch.message
    assert found.collectives[0].events[0] == call(0, 0)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sequence": None}, "no sequence number"),
        ({"group": ""}, "its group is not recorded"),
        ({"op": None}, "without an operation"),
        ({"op": Op.RECEIVE, "peers": ()}, "no rank sent it: receive from any rank of blocks.0"),
        ({"op": Op.SEND, "peers": ()}, "expected one peer"),
        ({"op": Op.SEND, "peers": (0,)}, "expected one peer, a different rank"),
        ({"op": Op.SEND, "peers": (1, 0)}, "expected one peer"),
    ],
)
def test_a_call_without_a_place(tmp_path, fields, why):
    odd = dataclasses.replace(call(0, 0), **fields)
    found = matching(tmp_path, [[odd], []])
    mismatch = only(found)
    assert (mismatch.kind, mismatch.ranks, mismatch.key) == (MismatchKind.UNKNOWN, (0,), None)
    assert why in mismatch.message
    assert found.collectives == ()


def test_a_group_that_is_named_is_there(tmp_path):
    """Of a rank that was killed before it came to a group's row the call has none."""
    odd = dataclasses.replace(call(0, 0), group="ghost")
    with pytest.raises(TraceError, match=r"rank-0.*event 0 is of group 'ghost', which is unknown"):
        matching(tmp_path / "closed", [[odd], []])
    folder = write_calls(tmp_path / "killed", [[odd], []])
    stop(folder, 0, 3)
    trace = load(folder)
    assert [event.group for event in trace.ranks[0].events] == [""]
    assert "its group is not recorded" in only(match_collectives(trace)).message


def test_a_group_without_its_caller(tmp_path):
    rows = {
        rank: [
            ("header", draw.header(rank, 2)),
            ("group", Group(name=GROUP, backend="gloo", ranks=(1,))),
            ("event", call(rank, 0)),
        ]
        for rank in range(2)
    }
    found = match_collectives(load(draw.write_trace(tmp_path, rows)))
    assert "its group 'dp' has only rank 1" in only(found).message
    assert [collective.events for collective in found.collectives] == [{1: call(1, 0)}]


def test_messages_match_in_order_for_each_pair(tmp_path):
    calls = [
        [message(0, 0, Op.SEND, 1), message(0, 1, Op.RECEIVE, 1), message(0, 2, Op.SEND, 1)],
        [message(1, 0, Op.SEND, 0), message(1, 1, Op.RECEIVE, 0), message(1, 2, Op.RECEIVE, 0)],
    ]
    found = matching(tmp_path, calls)
    assert found.mismatches == ()
    assert {c.key: c.events for c in found.collectives} == {
        CollectiveKey((0, 1), GROUP, 0, True): {0: calls[0][0], 1: calls[1][1]},
        CollectiveKey((0, 1), GROUP, 1, True): {0: calls[0][2], 1: calls[1][2]},
        CollectiveKey((1, 0), GROUP, 0, True): {1: calls[1][0], 0: calls[0][1]},
    }
    assert all(c.op is Op.SEND and c.complete for c in found.collectives)


def test_groups_are_separate_channels(tmp_path):
    calls = [
        [message(0, 0, Op.SEND, 1, group="a"), message(0, 1, Op.SEND, 1, group="b")],
        [message(1, 0, Op.RECEIVE, 0, group="b"), message(1, 1, Op.RECEIVE, 0, group="a")],
    ]
    found = matching(tmp_path, calls, {"a": (0, 1), "b": (0, 1)})
    assert found.mismatches == ()
    assert [(c.key.group, c.events[1].id) for c in found.collectives] == [("a", 1), ("b", 0)]


def test_messages_that_do_not_fit(tmp_path):
    calls = [
        [message(0, 0, Op.SEND, 1), message(0, 1, Op.SEND, 1)],
        [message(1, 0, Op.RECEIVE, 0, payload_bytes=8), message(1, 1, Op.RECEIVE, 2)],
        [],
    ]
    found = matching(tmp_path, calls)
    assert [(m.kind, m.ranks, m.key.sequence) for m in found.mismatches] == [
        (MismatchKind.PAYLOAD, (0, 1), 0),
        (MismatchKind.MISSING, (1,), 1),
        (MismatchKind.MISSING, (2,), 0),
    ]
    assert found.mismatches[1].message == (
        "message 1 from rank 0 to rank 1: missing: rank 0: send of blocks.0, 4096 B bfloat16 "
        "at train.py:1 in step; rank 1: no such call"
    )


def test_a_message_is_never_taken_for_a_collective_of_two_ranks(tmp_path):
    calls = [
        [call(0, 0), message(0, 1, Op.SEND, 1)],
        [call(1, 0), message(1, 1, Op.RECEIVE, 0)],
    ]
    found = matching(tmp_path, calls)
    assert [c.op for c in found.collectives] == [Op.ALL_GATHER, Op.SEND]
    assert found.mismatches == ()


def from_any(rank, place, **fields):
    return message(rank, place, Op.RECEIVE, 0, **{"peers": ()} | fields)


def test_a_receive_from_any_rank_finds_the_only_send_that_it_can_have_taken(tmp_path):
    calls = [
        [from_any(0, 0, payload_bytes=8), message(0, 1, Op.RECEIVE, 1), from_any(0, 2)],
        [message(1, 0, Op.SEND, 0), message(1, 1, Op.SEND, 0)],
        [message(2, 0, Op.SEND, 0, payload_bytes=8)],
    ]
    found = matching(tmp_path, calls)
    assert (found.mismatches, found.from_any) == ((), ())
    assert {c.key: c.events for c in found.collectives} == {
        CollectiveKey((1, 0), GROUP, 0, True): {1: calls[1][0], 0: calls[0][1]},
        CollectiveKey((1, 0), GROUP, 1, True): {1: calls[1][1], 0: calls[0][2]},
        CollectiveKey((2, 0), GROUP, 0, True): {2: calls[2][0], 0: calls[0][0]},
    }


def test_receives_from_any_rank_of_what_several_sent_are_told_and_not_guessed(tmp_path):
    other = {"payload_bytes": 8}
    calls = [
        [from_any(0, 0), from_any(0, 1), message(0, 2, Op.RECEIVE, 1, **other)],
        [message(1, 0, Op.SEND, 0), message(1, 1, Op.SEND, 0, **other)],
        [message(2, 0, Op.SEND, 0)],
    ]
    found = matching(tmp_path, calls)
    assert found.mismatches == ()
    assert [c.events for c in found.collectives] == [{1: calls[1][1], 0: calls[0][2]}]
    (unsaid,) = found.from_any
    assert (unsaid.sends, unsaid.receives) == ((calls[1][0], calls[2][0]), tuple(calls[0][:2]))
    trace = load(tmp_path)
    assert matching_verdict(trace).holds is True
    assert "2 receives accept any sender" in matching_verdict(trace).measured


def test_receives_from_any_rank_that_do_not_fit_what_was_sent(tmp_path):
    sends = [[message(rank, 0, Op.SEND, 0)] for rank in (1, 2)]
    mismatch = only(matching(tmp_path / "fewer", [[from_any(0, 0)], *sends]))
    assert (mismatch.kind, mismatch.ranks) == (MismatchKind.UNKNOWN, (0, 1, 2))
    assert "2 sent by ranks 1-2, 1 received: receive from any rank" in mismatch.message
    folder = write_calls(tmp_path / "cut", [[from_any(0, place) for place in range(3)], *sends])
    stop(folder, 2, 3)
    mismatch = only(match_collectives(load(folder)))
    assert mismatch.kind is MismatchKind.STOPPED


@settings(max_examples=30)
@given(st.data())
def test_every_call_is_in_exactly_one_place(data):
    num_ranks = data.draw(st.integers(1, 3))
    groups = {"all": tuple(range(num_ranks)), "first": (0,)}
    calls = [
        [
            dataclasses.replace(
                data.draw(draw.events(ids=st.just(place), ranks=st.just(rank))),
                kind=data.draw(st.sampled_from([Kind.COLLECTIVE, Kind.TRANSFER])),
                parent=data.draw(st.sampled_from([None, None, 0] if place else [None])),
                group=data.draw(st.sampled_from(["", *(g for g in groups if rank in groups[g])])),
                sequence=data.draw(st.none() | st.integers(0, 3)),
                peers=data.draw(st.sampled_from([(), *((one,) for one in range(num_ranks))])),
            )
            for place in range(data.draw(st.integers(0, 5)))
        ]
        for rank in range(num_ranks)
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = matching(Path(folder), calls, groups)
    placed = [(e.rank, e.id) for c in found.collectives for e in c.events.values()]
    told = [one for one in found.from_any if one.sends]
    placed += [(e.rank, e.id) for one in told for e in (*one.sends, *one.receives)]
    expected = [
        (e.rank, e.id)
        for events in calls
        for e in events
        if e.kind is Kind.COLLECTIVE and e.parent is None
    ]
    homeless = [
        m for m in found.mismatches if m.kind in (MismatchKind.UNKNOWN, MismatchKind.DUPLICATE)
    ]
    uneven = [one for one in told if not one.fits]  # placed, and said to be wrong as well
    assert len(placed) == len(set(placed))
    assert set(placed) <= set(expected)
    assert len(placed) + len(homeless) - len(uneven) == len(expected)
    assert all(len(m.message.splitlines()) == 1 for m in found.mismatches)
    incomplete = {c.key for c in found.collectives if not c.complete}
    absent = (MismatchKind.MISSING, MismatchKind.STOPPED)
    assert {m.key for m in found.mismatches if m.kind in absent} == incomplete
