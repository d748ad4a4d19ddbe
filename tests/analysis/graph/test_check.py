"""What is planted wrong in a trace is reported, with ranks, units and source lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analysis.graph.planted import Planted, plant
from tests.analysis.graph.runs import Plan, record
from tests.strategies import trace_files, write_files
from zerosim.analysis.graph import NodeKind, ViolationKind, build_graph, check_graph
from zerosim.analysis.graph.order import find_cycle
from zerosim.base.errors import TraceError
from zerosim.record import load
from zerosim.schema.events import Close, Event, Op, Transfer

HERE, THERE = "train.py:7 in step", "other.py:9 in go"


def violations(trace):
    return [
        violation for check in check_graph(build_graph(trace)) for violation in check.violations
    ]


def only(trace):
    """The one thing that is wrong."""
    found = violations(trace)
    assert len(found) == 1, found
    return found[0]


def ring(folder, change=lambda rank, row: row):
    """A ring's run whose rows are changed: `change` gives another row, or None for none."""
    written = record(Plan(num_ranks=3, iterations=1))
    for rank, rows in written.rows.items():
        changed = (change(rank, record_) for record_ in rows)
        written.rows[rank] = [row for row in changed if row is not None]
    return load(write_files(folder, trace_files(written)))


def is_event(row, **fields):
    record_ = row[1]
    return isinstance(record_, Event) and all(
        getattr(record_, name) == value for name, value in fields.items()
    )


def test_a_run_that_went_well(tmp_path):
    graph = build_graph(ring(tmp_path))
    checks = check_graph(graph)
    assert all(check.holds for check in checks)
    assert [check.counted for check in checks] == [
        f"{graph.num_nodes} nodes, {graph.num_edges} edges",
        "6 collectives",
        "6 collectives",
        "36 messages",
    ]
    assert find_cycle(graph) == []


def two(**second_fields):
    """Two ranks that call the same, but for what the second one does otherwise."""
    first, second = Planted(0), Planted(1)
    first.call(0, 0, 9, unit="blocks.0", source=HERE)
    second.call(0, 0, 9, **{"unit": "blocks.0", "source": THERE} | second_fields)
    return first, second


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"payload_bytes": 104}, "payload"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"op": Op.ALL_GATHER}, "op"),
        ({"unit": "head"}, "their orders differ"),
    ],
)
def test_ranks_that_ask_for_different_things(tmp_path, fields, word):
    found = only(plant(tmp_path, *two(**fields)))
    assert found.kind is ViolationKind.DIFFERENT
    assert found.ranks == (0, 1)
    assert found.units[0] == "blocks.0"
    for text in (word, "rank 0", "rank 1", "blocks.0", HERE, THERE):
        assert text in found.message, text


def test_a_rank_that_names_no_unit_crosses_nobodys_order(tmp_path):
    """One that has run out of data joins in the reductions of the others."""
    assert violations(plant(tmp_path, *two(unit=""))) == []


def test_a_rank_that_never_called(tmp_path):
    first, second = two()
    first.call(10, 10, 19, unit="head", source=HERE)
    found = only(plant(tmp_path, first, second))
    assert found.kind is ViolationKind.INCOMPLETE
    assert found.ranks == (1,)
    assert found.units == ("head",)
    assert "head" in found.message
    assert HERE in found.message


def test_a_collective_that_a_rank_was_in_when_it_stopped(tmp_path):
    def hang(rank, row):
        closes = isinstance(row[1], Close) and row[1].id == max(gathers)
        return None if rank == 1 and closes else row

    rows = record(Plan(num_ranks=3, iterations=1)).rows[1]
    gathers = [row[1].id for row in rows if is_event(row, op=Op.ALL_GATHER, unit="block")]
    found = only(ring(tmp_path, hang))
    assert found.kind is ViolationKind.NEVER_ENDED
    assert found.ranks == (1,)
    assert found.units == ("block",)
    assert "all-gather of block (backward of iteration 0 at model.py:10 in" in found.message
    assert "never ended on rank 1" in found.message


def test_a_collective_that_failed(tmp_path):
    first, second = Planted(0), Planted(1)
    first.call(0, 0, 5, unit="head", error="connection reset")
    second.call(0, 0, 5, unit="head")
    found = only(plant(tmp_path, first, second))
    assert (found.kind, found.ranks) == (ViolationKind.NEVER_ENDED, (0,))
    assert found.message.endswith("failed on rank 0: connection reset")
    assert HERE in found.message


def test_an_end_that_was_not_seen_is_that_of_the_wait(tmp_path):
    ranks = Planted(0), Planted(1)
    for rank in ranks:
        call = rank.call(0, 0, None)
        rank.wait(2, 50, call)
    graph = build_graph(plant(tmp_path, *ranks))
    assert all(check.holds for check in check_graph(graph))
    node = int(graph.is_kind(NodeKind.MATCH).nonzero()[0][0])
    assert (graph.start[node], graph.end[node]) == (0, 50)


def test_two_groups_called_in_crossed_order_are_a_deadlock(tmp_path):
    first, second = Planted(0), Planted(1)
    for rank, order in ((first, ("left", "right")), (second, ("right", "left"))):
        rank.groups = {"left": (0, 1), "right": (0, 1)}
        for place, group in enumerate(order):
            start = 10 * place
            source = f"{group}.py:3 in {group}"
            rank.call(start, start, start + 8, unit=f"unit {group}", group=group, source=source)
    found = only(plant(tmp_path, first, second))
    assert found.kind is ViolationKind.CYCLE
    assert found.ranks == (0, 1)
    assert set(found.units) == {"unit left", "unit right"}
    assert "deadlock" in found.message
    first_side = "rank 0 reaches all-reduce of unit right (forward of iteration 0 at right.py:3 in right) only after all-reduce of unit left"  # noqa: E501
    second_side = "rank 1 reaches all-reduce of unit left (forward of iteration 0 at left.py:3 in left) only after all-reduce of unit right"  # noqa: E501
    assert first_side in found.message
    assert second_side in found.message


def test_the_same_order_on_two_groups_is_none(tmp_path):
    ranks = Planted(0), Planted(1)
    for rank in ranks:
        rank.groups = {"left": (0, 1), "right": (0, 1)}
        for place, group in enumerate(("left", "right")):
            rank.call(10 * place, 10 * place, 10 * place + 8, group=group)
    assert violations(plant(tmp_path, *ranks)) == []


def test_a_message_outside_of_any_collective_that_nobody_received(tmp_path):
    first, second = Planted(0), Planted(1)
    for unit in ("blocks.0", "head"):
        first.call(0, 0, 3, op=Op.SEND, peers=(1,), unit=unit, source=HERE)
    second.call(5, 5, 9, op=Op.RECEIVE, peers=(0,), unit="blocks.0", source=THERE)
    found = only(plant(tmp_path, first, second))
    assert (found.kind, found.ranks, found.units) == (ViolationKind.INCOMPLETE, (1,), ("head",))
    assert "message 1 from rank 0 to rank 1" in found.message
    assert HERE in found.message


def test_a_message_that_was_never_received(tmp_path):
    dropped = []

    def drop(rank, row):
        if rank == 2 and isinstance(row[1], Transfer) and row[1].op is Op.RECEIVE and not dropped:
            dropped.append(row[1])
            return None
        return row

    found = only(ring(tmp_path, drop))
    assert found.kind is ViolationKind.NOT_RECEIVED
    assert found.ranks == (1, 2)
    assert found.units == ("embedding",)
    for text in ("from rank 1 to rank 2", "never received", "embedding", "model.py:10 in forward"):
        assert text in found.message, text


def test_a_message_that_arrived_with_another_size(tmp_path):
    def shrink(rank, row):
        name, transfer = row
        if rank == 0 and isinstance(transfer, Transfer) and transfer.op is Op.RECEIVE:
            return name, replace(transfer, payload_bytes=transfer.payload_bytes - 1)
        return row

    found = violations(ring(tmp_path, shrink))
    assert len(found) == 12
    assert {violation.kind for violation in found} == {ViolationKind.DIFFERENT}
    assert "1365 B" in found[0].message
    assert "1364 B" in found[0].message
    assert found[0].ranks == (0, 2)


def test_a_missing_collective_in_a_ring_names_its_messages_too(tmp_path):
    gone = set()

    def forget(rank, row):
        thing = row[1]
        if rank == 1 and is_event(row, op=Op.REDUCE_SCATTER, unit="embedding"):
            gone.add(thing.id)
            return None
        if rank == 1 and isinstance(thing, Close) and thing.id in gone:
            return None
        if rank == 1 and isinstance(thing, Transfer) and thing.parent in gone:
            return None
        if rank == 1 and isinstance(thing, Event) and thing.parent in gone:
            return None
        return row

    found = violations(ring(tmp_path, forget))
    assert found[0].kind is ViolationKind.INCOMPLETE
    assert found[0].ranks == (1,)
    assert "reduce-scatter of embedding" in found[0].message
    assert "train.py:20 in step" in found[0].message
    assert {one.kind for one in found[1:]} == {ViolationKind.NOT_RECEIVED, ViolationKind.NOT_SENT}


def test_no_path_leads_through_a_circle(tmp_path):
    from zerosim.analysis import critical_path, report

    first, second = Planted(0), Planted(1)
    for rank, order in ((first, ("left", "right")), (second, ("right", "left"))):
        rank.groups = {"left": (0, 1), "right": (0, 1)}
        for place, group in enumerate(order):
            rank.call(10 * place, 10 * place, 10 * place + 8, group=group)
    graph = build_graph(plant(tmp_path, first, second))
    with pytest.raises(TraceError, match="cycle"):
        critical_path(graph)
    answer = report(graph)
    assert not answer.holds
    assert answer.path is None
    assert "deadlock" in answer.headline
