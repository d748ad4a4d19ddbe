"""Placing in time: a run with its own times is itself, with others it is the run with those."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import TO_DISK, Planted, kept_on_disk, plant, straggling
from tests.analysis.graph.runs import Plan
from zerosim.analysis import critical_path
from zerosim.analysis.graph import NodeKind, build_graph
from zerosim.predict.placement import Recorded, Resource, place
from zerosim.predict.placement.sharing import Underway
from zerosim.record import load
from zerosim.schema.events import Kind, Phase, Purpose

TRACES = Path(__file__).parents[3] / "lessons" / "traces"


class Factors(Recorded):
    """As recorded, but for one rank's computations, the messages, the collectives, the copies."""

    def __init__(self, rank=0, compute=1.0, message=1.0, collective=1.0, copy=1.0):
        self.rank, self.compute = rank, compute
        self.message, self.collective, self.copy = message, collective, copy

    def computations(self, tasks):
        scaled = np.rint(tasks.recorded * self.compute).astype(np.int64)
        return np.where(tasks.rank == self.rank, scaled, tasks.recorded)

    def messages(self, tasks):
        return np.rint(tasks.recorded * self.message).astype(np.int64)

    def collectives(self, tasks):
        return np.rint(tasks.recorded * self.collective).astype(np.int64)

    def copies(self, tasks):
        return np.rint(tasks.recorded * self.copy).astype(np.int64)


def times(trace, *kinds):
    """Of events of these kinds: rank, what it is, asked for, begun, over."""
    return [
        (rank.rank, event.unit, event.op, event.hop, event.issue_ns, event.start_ns, event.end_ns)
        for rank in trace.ranks
        for event in rank.events
        if event.kind in kinds
    ]


@pytest.mark.parametrize(
    "name",
    [
        "ring/stage-3", "nodes/stage-3", "native/stage-2", "infinity/stage-3", "delayed/stage-2",
        "parallel/ddp", "parallel/1f1b", "profiles/fsdp2", "full/stage-2",
    ],
)  # fmt: skip
def test_a_recorded_run_is_placed_where_it_was(name):
    trace = load(TRACES / name)
    assert place(trace) == trace


@given(plan=plans())
def test_so_is_every_run(plan):
    trace = load_plan(plan)
    assert place(trace) == trace


@pytest.mark.parametrize("stage", [1, 3])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_without_its_straggler_a_run_is_that_without_one(stage, overlap, num_ranks):
    def slow(rank, *_):
        return 3000 if rank == 1 else 1000

    usual = {"num_ranks": num_ranks, "stage": stage, "overlap": overlap, "gap_ns": 0}
    slowed = load_plan(Plan(compute_ns=slow, **usual))
    steady = load_plan(Plan(**usual))
    predicted = place(slowed, Factors(rank=1, compute=1 / 3))
    shown = Kind.COMPUTE, Kind.COLLECTIVE
    assert times(slowed, *shown) != times(steady, *shown)
    assert times(predicted, *shown) == times(steady, *shown)


@pytest.mark.parametrize("factor", [0.1, 10])
def test_with_another_network_a_run_is_that_over_it(factor):
    usual = {"num_ranks": 4, "overlap": False, "gap_ns": 0}
    predicted = place(load_plan(Plan(hop_ns=100, **usual)), Factors(message=factor))
    recorded = load_plan(Plan(hop_ns=round(100 * factor), **usual))
    assert times(predicted, *Kind) == times(recorded, *Kind)


def test_two_ranks_and_one_collective_by_hand(tmp_path):
    trace = straggling(tmp_path)
    # rank 1 takes 80 ns for a; with 40 it arrives at 60, as rank 0 does, and all is 40 ns earlier
    predicted = place(trace, Factors(rank=1, compute=1 / 2))
    assert times(predicted, Kind.COLLECTIVE) == [
        (0, "a", "all-reduce", None, 55, 60, 90),
        (1, "a", "all-reduce", None, 55, 60, 88),
    ]
    assert [one[5:] for one in times(predicted, Kind.COMPUTE)] == [
        *((10, 50), (100, 150)),
        *((10, 50), (100, 130)),
    ]


def test_a_slower_disk_delays_what_waits_for_it(tmp_path):
    trace = kept_on_disk(tmp_path)
    predicted = place(trace, Factors(copy=2))
    assert [one[4:] for one in times(predicted, Kind.COPY)] == [
        *((8, 10, 50), (8, 50, 70)),  # 20 and 10 ns become 40 and 20
        (131, 131, 147),
        (140, 140, 180),
        *((200, 200, 240), (201, 240, 260)),
    ]
    assert critical_path(build_graph(predicted)).duration_ns == 270


class OneDisk(Recorded):
    """All ranks' copies share a disk."""

    def needs(self, tasks):
        disk = Resource("disk", 0)
        return [(disk,)] * len(tasks.rows) if tasks.kind is NodeKind.COPY else None


def test_what_shares_a_link_takes_its_turns(tmp_path):
    ranks = [Planted(0), Planted(1)]
    for rank, begin in zip(ranks, (10, 15), strict=True):
        rank.border(0, Phase.FORWARD)
        rank.border(100, Phase.OUTSIDE)
        rank.compute("a", 0, begin)
        rank.copy(Purpose.OFFLOAD_GRADIENTS, TO_DISK, begin, begin + 10)
    trace = plant(tmp_path, *ranks)
    # alone for 5 ns, then both at half speed: 5 ns are left of one and take 10, then 5 of the other
    assert [one[5:] for one in times(place(trace, OneDisk()), Kind.COPY)] == [(10, 25), (15, 30)]


class Cores(Recorded):
    """All ranks compute on so many cores."""

    def __init__(self, room):
        self.cores = Resource("cores", 0, room)

    def needs(self, tasks):
        computes = tasks.kind is NodeKind.COMPUTE
        return [(self.cores,)] * len(tasks.rows) if computes else None


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_that_share_cores_compute_in_turns(num_ranks):
    trace = load_plan(Plan(num_ranks=num_ranks, overlap=False, gap_ns=0))
    slower = load_plan(
        Plan(num_ranks=num_ranks, overlap=False, gap_ns=0, compute_ns=lambda *_: 500 * num_ranks)
    )
    assert place(trace, Cores(num_ranks)) == trace
    shared = place(trace, Cores(2))
    assert times(shared, *Kind) == times(slower, *Kind)


def test_who_goes_first_leaves_others_the_rest():
    """Two compute on two cores, of which a message takes one for 4 ns."""
    underway = Underway()
    core, message = Resource("cores", 0, 2), Resource("cores", 0, 2, goes_first=True)
    for moment in (1, 2):
        underway.begin(moment, 0, 10, (core,))
    underway.begin(3, 0, 4, (message,))
    ended = []
    while underway.next_end() is not None:
        ended.append(underway.finish())
    assert ended == [(3, 4), (1, 12), (2, 12)]  # at half speed until 4, then at full speed


def test_samples_and_metrics_follow_the_program():
    trace = load(TRACES / "ring" / "stage-2")
    slower = place(trace, Factors(message=3))
    for before, after in zip(trace.ranks, slower.ranks, strict=True):
        assert len(after.memory_samples) == len(before.memory_samples)
        rows = [one.time_ns for one in after.memory_samples]
        assert rows == sorted(rows)
        assert after.metrics[-1].time_ns > before.metrics[-1].time_ns
