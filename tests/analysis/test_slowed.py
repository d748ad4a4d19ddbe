"""In real runs: a rank slowed on purpose is found, and overlap shows as less exposed time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis import slowed
from tests.ranks import run_ranks
from zerosim.analysis import TimeCause, budgets, critical_path, report
from zerosim.analysis.graph import build_graph, check_graph
from zerosim.record import load

pytestmark = [pytest.mark.ranks, pytest.mark.quiet]

LATER = range(1, slowed.STEPS)
"""The first iteration also learns the order of the units."""


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slowed")
    run_ranks(slowed.train_all, slowed.NUM_RANKS, str(folder))
    return {path.name: build_graph(load(path, strict=True)) for path in Path(folder).iterdir()}


def test_real_runs_are_graphs_that_hold_together(graphs):
    for graph in graphs.values():
        assert all(check.holds for check in check_graph(graph))


def test_every_nanosecond_of_a_real_run_is_accounted_for(graphs):
    for graph in graphs.values():
        for iteration in range(slowed.STEPS):
            part = graph.within(iteration)
            path = critical_path(part)
            assert sum(path.by_cause().values()) == path.duration_ns
            assert path.duration_ns == part.end.max() - part.start.min()
            for budget in budgets(part).by_phase.values():
                parts = (budget.compute_ns, budget.exposed_ns, budget.waiting_ns, budget.other_ns)
                assert sum(parts) == budget.wall_ns


def test_the_slow_rank_is_found(graphs):
    slow_ns = int(slowed.SLOW_S * 1e9)
    for iteration in LATER:
        part = graphs["slow"].within(iteration)
        path = critical_path(part)
        on_path = [
            piece
            for piece in path.pieces
            if piece.cause is TimeCause.COMPUTE
            and part.event_of(piece.node).unit == slowed.SLOW_UNIT
        ]
        # its forward and its backward, and nobody else's
        assert {piece.rank for piece in on_path if piece.duration_ns > slow_ns // 2} == {
            slowed.SLOW_RANK
        }
        assert sum(piece.duration_ns for piece in on_path) >= 2 * slow_ns
        own = path.by_rank()
        assert max(own, key=own.get) == slowed.SLOW_RANK
        found = budgets(part)
        others = [rank for rank in found.ranks if rank != slowed.SLOW_RANK]
        for rank in others:
            # what it did meanwhile, and how long the others' processes were held up, is not much
            assert found.waited_ns[rank, slowed.SLOW_RANK] > slow_ns
        waited = {rank: found.waited_for(rank) for rank in found.ranks}
        assert max(waited, key=waited.get) == slowed.SLOW_RANK
        headline = report(graphs["slow"], iteration).headline
        assert f"mostly on rank {slowed.SLOW_RANK}" in headline
        assert f"for rank {slowed.SLOW_RANK}." in headline


def test_overlap_exposes_less(graphs):
    total = {
        name: sum((budgets(graphs[name].within(i)).of() for i in LATER), start=budgets(
            graphs[name].within(0)
        ).of())
        for name in ("overlap", "no overlap")
    }  # fmt: skip
    assert total["no overlap"].overlap == 0.0
    assert total["no overlap"].hidden_ns == 0
    assert total["overlap"].overlap > 0.2
    shares = {name: budget.exposed_ns / budget.wall_ns for name, budget in total.items()}
    assert shares["overlap"] < 0.8 * shares["no overlap"]
