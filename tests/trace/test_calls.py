"""Interception: whatever asks PyTorch for communication is seen exactly once, as what it is."""

from collections import defaultdict

import networkx as nx
import pytest

from tests.ranks import run_ranks
from tests.trace import calls
from zerosim.analysis.graph import build_graph, check_graph
from zerosim.record import load, match_collectives
from zerosim.schema.events import Algorithm, Kind, Op
from zerosim.verify import verify

pytestmark = pytest.mark.ranks

BYTES = {"float32": 4, "bfloat16": 2, "int64": 8, "uint8": 1, "": 0}
MESSAGES = (Op.SEND, Op.RECEIVE)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    return folder, run_ranks(calls.make_all, calls.NUM_RANKS, str(folder))


def calls_of(rank):
    return [event for event in rank.events if event.kind is Kind.COLLECTIVE]


def by_unit(rank):
    found = defaultdict(list)
    for event in calls_of(rank):
        found[event.unit].append(event)
    return found


def message(event):
    return event.op, event.elements, event.peers


@pytest.mark.parametrize("mode", calls.MODES)
def test_each_call_is_seen_once_in_every_mode(made, mode):
    folder, answers = made
    for rank in load(folder / mode, strict=True).ranks:
        expected, *_ = answers[rank.rank]
        found = by_unit(rank)
        for name, (_, what) in ((name, (None, what)) for name, what in expected.items()):
            if what is None or len(what[0]) == 2:
                continue
            seen = [(event.op, event.elements, event.dtype) for event in found[name]]
            assert seen == what, (rank.rank, name)
            for event in found[name]:
                assert event.kind is Kind.COLLECTIVE
                assert event.algorithm is Algorithm.GLOO
                assert event.payload_bytes == event.elements * BYTES[event.dtype]
                assert (event.sent_bytes, event.received_bytes) == (None, None)
                assert rank.groups[event.group].ranks == (0, 1, 2)
                assert "/calls.py:" in event.source, name


@pytest.mark.parametrize("mode", calls.MODES)
def test_messages_name_their_peer_and_their_size(made, mode):
    folder, answers = made
    *_, pair = answers[1]
    sends, receives = (Op.SEND, calls.N, (2,)), (Op.RECEIVE, calls.N, (1,))
    for rank in load(folder / mode, strict=True).ranks:
        found = by_unit(rank)
        one = {0: [], 1: [sends], 2: [receives]}[rank.rank]
        for name in ("send, recv", "isend, irecv", "send, recv in a group", "recv from anyone"):
            assert [message(event) for event in found[name]] == one, name
        for event in found["send, recv in a group"]:
            assert event.group == pair
            assert rank.groups[pair].ranks == (1, 2)
        after, before = (rank.rank + 1) % 3, (rank.rank - 1) % 3
        circle = [(Op.SEND, calls.N, (after,)), (Op.RECEIVE, calls.N, (before,))]
        assert [message(event) for event in found["batch_isend_irecv"]] == circle
        for event in rank.events:
            if event.op in MESSAGES:
                moved = (24, 0) if event.op is Op.SEND else (0, 24)
                assert (event.sent_bytes, event.received_bytes) == moved
                assert event.sequence is None


def test_receives_from_any_rank_say_who_sent(made):
    folder, answers = made
    *_, sources, _ = answers[0]
    assert sorted(sources) == [1, 2]
    trace = load(folder / "anyone", strict=True)
    receives = calls_of(trace.ranks[0])
    assert [message(event) for event in receives] == [
        (Op.RECEIVE, calls.N, (source,)) for source in sources
    ]
    matching = match_collectives(trace)
    assert (matching.mismatches, matching.from_any) == ((), ())
    assert {one.key.ranks: one.events[0] for one in matching.collectives} == {
        (source, 0): event for source, event in zip(sources, receives, strict=True)
    }
    graph = build_graph(trace)
    assert [check.violations for check in check_graph(graph)] == [()] * 4
    flow = graph.to_networkx()
    events = {node: graph.event_of(node) for node in flow}
    nodes = {(one.rank, one.id): node for node, one in events.items() if one is not None}
    first, second = ((rank, calls_of(trace.ranks[rank])[0].id) for rank in sources)
    waits = {one.parent: one.id for one in trace.ranks[0].events if one.kind is Kind.WAIT}
    awaited = nodes[0, waits[receives[0].id]]
    assert nx.has_path(flow, nodes[first], awaited)
    assert not nx.has_path(flow, nodes[second], awaited)
    assert nx.has_path(flow, nodes[second], nodes[0, waits[receives[1].id]])
    report = verify(trace)
    moved = {row.op: row for row in report.rows}
    assert [cell.trace for cell in moved[Op.SEND].sent] == [0, 24, 24]
    assert [cell.trace for cell in moved[Op.RECEIVE].received] == [48, 0, 0]
    assert {verdict.id: verdict.holds for verdict in report.verdicts}["matched"] is True


def test_tensors_of_inference_mode_carry_no_autograd_keys_and_are_seen_all_the_same(made):
    """A kernel at the Autograd key would miss these calls (FACTS.md, section 2)."""
    folder, answers = made
    assert not any(has_autograd for _, _, has_autograd, *_ in answers)
    plain, inference = (load(folder / mode) for mode in ("plain", "inference_mode"))
    for one, other in zip(plain.ranks, inference.ranks, strict=True):
        assert len(calls_of(one)) >= 30
        assert [event.op for event in calls_of(one)] == [event.op for event in calls_of(other)]


def test_programs_that_communicate_by_themselves(made):
    folder, answers = made
    for rank in load(folder / "programs", strict=True).ranks:
        expected, *_ = answers[rank.rank]
        found = by_unit(rank)
        names = [name for name, what in expected.items() if what and len(what[0]) == 2]
        assert len(names) == 8
        for name in names:
            events = found[name]
            seen = [(event.op, event.elements) for event in events]
            if name == "ZeroRedundancyOptimizer":  # in the order of the owners
                seen = sorted(seen, key=expected[name].index)
            assert seen == expected[name], (rank.rank, name)
            assert {event.dtype for event in events} == {"float32"}
        assert set(found) <= {*names, ""}


def test_a_witness_counts_the_same(made):
    """CommDebugMode sees the dispatcher from above: all but messages and barriers."""
    folder, answers = made
    witnesses = 0
    for mode in ("plain", "programs"):
        for rank in load(folder / mode).ranks:
            _, witnessed, *_ = answers[rank.rank]
            found = by_unit(rank)
            for name in found.keys() & witnessed.keys():
                events = [e for e in found[name] if e.op not in (*MESSAGES, Op.BARRIER)]
                assert len(events) == witnessed[name], (rank.rank, name)
                witnesses += len(events)
    assert witnesses > 100


def test_what_has_an_end_has_it_without_a_wait_of_ours(made):
    folder, _ = made
    for rank in load(folder / "plain", strict=True).ranks:
        assert rank.unfinished == ()
        assert [event.unit for event in rank.events if event.end_ns is None] == []
        for event in rank.events:
            assert event.issue_ns <= event.start_ns <= (event.end_ns or event.start_ns)


def test_who_waits_for_a_call_in_python_is_seen_to_wait(made):
    folder, _ = made
    for rank in load(folder / "plain", strict=True).ranks:
        by_id = {event.id: event for event in rank.events}
        waits = [event for event in rank.events if event.kind is Kind.WAIT]
        waited = [by_id[wait.parent] for wait in waits]
        # a call that was over before anyone waited for it is not waited for; this one never is
        assert {"reduce_scatter", "reduce_scatter_single"} <= {event.unit for event in waited}
        assert len({event.id for event in waited}) == len(waited)
        for wait, call in zip(waits, waited, strict=True):
            assert call.kind is Kind.COLLECTIVE
            assert call.issue_ns <= wait.start_ns <= wait.end_ns


def test_all_ranks_agree_on_what_was_called(made):
    folder, _ = made
    for mode in (*calls.MODES, "programs"):
        trace = load(folder / mode, strict=True)
        matching = match_collectives(trace)
        assert [m.message for m in matching.mismatches] == []
        ops = [[e.op for e in rank.events if e.sequence is not None] for rank in trace.ranks]
        assert ops[0] == ops[1] == ops[2]
        for rank in trace.ranks:
            for group in rank.groups:
                numbers = [e.sequence for e in rank.events if e.group == group]
                numbers = [number for number in numbers if number is not None]
                assert numbers == list(range(len(numbers)))
            assert [event.id for event in rank.events] == list(range(len(rank.events)))
