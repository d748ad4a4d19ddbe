"""Copies between tiers in the graph: the rank and thread that request them, and their users."""

from __future__ import annotations

import pytest

from tests.analysis.graph.planted import FROM_DISK, FROM_HOST, TO_HOST, Planted, kept_on_disk, plant
from zerosim.analysis import Budget, TimeCause, budgets, critical_path, exposed
from zerosim.analysis.graph import EdgeKind, NodeKind, build_graph, check_graph
from zerosim.schema.events import Op, Phase, Purpose


@pytest.fixture
def graph(tmp_path):
    return build_graph(kept_on_disk(tmp_path))


def _edges(graph, kind: EdgeKind) -> set[tuple[str, str, str]]:
    return {
        (
            graph.label(int(graph.source[edge])),
            graph.label(int(graph.target[edge])),
            graph.words(edge),
        )
        for edge in range(graph.num_edges)
        if graph.kind_of_edge(edge) is kind
    }


def test_what_is_copied_goes_from_maker_to_user(graph):
    assert all(check.holds for check in check_graph(graph))
    assert _edges(graph, EdgeKind.LIFETIME) == {
        (
            "fetch parameters of a, disk to host",
            "fetch parameters of a, host to device",
            "a continues to the next tier",
        ),
        (
            "fetch parameters of a, host to device",
            "forward of a",
            "a computes with fetched parameters",
        ),
        (
            "fetch parameters of a, host to device",
            "backward of a",
            "a computes with fetched parameters",
        ),
        ("forward of a", "backward of a", "activations of a were saved for backward"),
        (
            "backward of a",
            "offload gradients of a, device to host",
            "reduced gradients of a leave the device",
        ),
        (
            "offload gradients of a, device to host",
            "update of a",
            "offloaded gradients of a are applied",
        ),
        (
            "fetch optimizer states of a, disk to host",
            "update of a",
            "fetched optimizer states of a are updated",
        ),
        *(
            (
                "update of a",
                f"store {what} of a, host to disk",
                "new values of a return to their tier",
            )
            for what in ("optimizer states", "parameters")
        ),
    }


def test_a_wait_follows_its_copy_and_a_copy_the_one_before_on_its_thread(graph):
    found = _edges(graph, EdgeKind.MATCH) | {
        edge for edge in _edges(graph, EdgeKind.ORDER) if "copying thread" in edge[2]
    }
    free = "the copying thread of rank 0 is free"
    assert found == {
        (
            "fetch parameters of a, host to device",
            "wait for fetch parameters of a, host to device",
            "it completes on rank 0",
        ),
        (
            "fetch optimizer states of a, disk to host",
            "wait for fetch optimizer states of a, disk to host",
            "it completes on rank 0",
        ),
        (
            "store parameters of a, host to disk",
            "wait for store parameters of a, host to disk",
            "it completes on rank 0",
        ),
        # the disk's thread, and beside it the bus's
        ("fetch parameters of a, disk to host", "fetch optimizer states of a, disk to host", free),
        (
            "fetch optimizer states of a, disk to host",
            "store optimizer states of a, host to disk",
            free,
        ),
        ("store optimizer states of a, host to disk", "store parameters of a, host to disk", free),
        ("fetch parameters of a, host to device", "offload gradients of a, device to host", free),
    }


def test_where_the_time_went(graph):
    found = budgets(graph)
    assert found.by_phase == {
        (0, Phase.FORWARD): Budget(
            wall_ns=70, compute_ns=20, copying_ns=29, other_ns=21, hidden_copying_ns=2
        ),
        (0, Phase.BACKWARD): Budget(wall_ns=40, compute_ns=30, other_ns=10, hidden_copying_ns=8),
        (0, Phase.UPDATE): Budget(
            wall_ns=80, compute_ns=19, copying_ns=16 + 27, other_ns=18, hidden_copying_ns=5 + 5
        ),
    }
    assert found.of().overlap is None
    assert found.of(phase=Phase.BACKWARD).copying_overlap == 1.0
    assert [(one.purpose, one.exposed_ns, one.is_copying) for one in exposed(graph)] == [
        ("fetch parameters", 29, True),
        ("store parameters", 27, True),
        ("fetch optimizer states", 16, True),
    ]


def test_the_critical_path_goes_through_copies(graph):
    path = critical_path(graph)
    assert path.by_cause()[TimeCause.COPYING] == 20 + 10 + 20 + 20 + 10
    assert sum(path.by_cause().values()) == path.duration_ns == 190
    copies = [node for node in path.nodes if graph.kind_of(node) is NodeKind.COPY]
    assert [graph.label(node) for node in copies] == [
        "fetch parameters of a, disk to host",
        "fetch parameters of a, host to device",
        "fetch optimizer states of a, disk to host",
        "store optimizer states of a, host to disk",
        "store parameters of a, host to disk",
    ]


def test_who_waits_for_a_gather_may_wait_for_the_copy_that_it_needs(tmp_path):
    """The call of rank 0 comes when its fetch is over, rank 1 comes at 60; over at 80."""
    ranks = [Planted(0), Planted(1)]
    for rank, begin in zip(ranks, (40, 60), strict=True):
        rank.border(0, Phase.FORWARD)
        rank.border(100, Phase.OUTSIDE)
        rank.copy(Purpose.FETCH_PARAMETERS, FROM_HOST, 5, begin - 5)
        call = rank.call(4, begin, 80, op=Op.ALL_GATHER, purpose=Purpose.GATHER_PARAMETERS)
        rank.wait(10, 82, call)
        rank.compute("a", 82, 100)
    graph = build_graph(plant(tmp_path, *ranks))
    of_first = budgets(graph).of(rank=0)
    assert (of_first.copying_ns, of_first.waiting_ns) == (25, 20)
    assert of_first.exposed_ns == 5 + 20 + 2  # handed over, moved, taken up
    edges = _edges(graph, EdgeKind.LIFETIME)
    assert {words for _, _, words in edges} == {
        "fetched parameters of a are gathered",
        "a computes with gathered parameters",
    }


def test_a_delayed_update_applies_the_gradients_of_the_iteration_before(tmp_path):
    rank = Planted(0, num_ranks=1)
    rank.copy(Purpose.OFFLOAD_GRADIENTS, TO_HOST, 10, 20, phase=Phase.BACKWARD)
    rank.compute("a", 30, 40, phase=Phase.UPDATE, iteration=1)
    rank.copy(Purpose.RETURN_PARAMETERS, FROM_HOST, 40, 50, phase=Phase.UPDATE, iteration=1)
    rank.compute("a", 60, 70, iteration=2)
    graph = build_graph(plant(tmp_path, rank))
    assert {words for _, _, words in _edges(graph, EdgeKind.LIFETIME)} == {
        "offloaded gradients of a are applied",
        "new values of a return to their tier",
        "returned parameters of a are used",
    }


def test_what_was_stored_is_fetched_again(tmp_path):
    rank = Planted(0, num_ranks=1)
    rank.copy(Purpose.STORE_PARAMETERS, FROM_DISK[::-1], 10, 20, phase=Phase.UPDATE)
    rank.copy(Purpose.FETCH_PARAMETERS, FROM_DISK, 30, 40, iteration=1)
    rank.copy(Purpose.OFFLOAD_ACTIVATIONS, TO_HOST, 41, 42, iteration=1)
    rank.copy(Purpose.FETCH_ACTIVATIONS, FROM_HOST, 50, 60, iteration=1, phase=Phase.BACKWARD)
    rank.compute("a", 60, 70, iteration=1, phase=Phase.BACKWARD)
    graph = build_graph(plant(tmp_path, rank))
    assert [words for _, _, words in sorted(_edges(graph, EdgeKind.LIFETIME))] == [
        "a is recomputed from its checkpoint",
        "a computes with fetched parameters",
        "stored values of a are fetched",
        "stored values of a are fetched",
    ]
