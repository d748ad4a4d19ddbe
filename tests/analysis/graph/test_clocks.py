"""Clocks of several hosts: the offset is found within the uncertainty that is stated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.graph.plans import load_plan, plans
from tests.analysis.graph.planted import Planted, plant
from tests.analysis.graph.runs import Plan
from tests.ranks import free_port
from zerosim.analysis import budgets, critical_path, slack
from zerosim.analysis.graph import HostClock, build_graph
from zerosim.cli.timings import clock_words
from zerosim.record import load
from zerosim.schema.events import Op


def hosts_of(trace):
    return build_graph(trace).clocks.hosts


def two_hosts(folder, *spans, **fields):
    """Rank 0 on host a, rank 1 on host b; a collective for each pair of spans."""
    first, second = Planted(0, host="a"), Planted(1, host="b")
    for one, other in spans:
        first.call(one[0], *one, **fields)
        second.call(other[0], *other, **fields)
    return plant(folder, first, second)


def test_one_host_has_one_clock(tmp_path):
    first, second = Planted(0), Planted(1)
    first.call(0, 0, 10)
    second.call(500, 500, 510)
    clocks = hosts_of(plant(tmp_path, first, second))
    assert clocks == (HostClock(host="box", ranks=(0, 1), offset_ns=0, uncertainty_ns=0),)


def test_an_offset_by_hand(tmp_path):
    # b's clock shows 1000 more; on a's, rank 1 is within the collective from 40 to 90
    clocks = hosts_of(two_hosts(tmp_path, ((0, 100), (1040, 1090))))
    # b's begin is not after a's end: 1040 + x <= 100; a's begin not after b's end: 0 <= 1090 + x
    assert clocks[1] == HostClock(
        host="b", ranks=(1,), offset_ns=-1015, uncertainty_ns=75, num_exchanges=1
    )


def test_every_exchange_narrows_the_interval(tmp_path):
    spans = (((0, 100), (1040, 1090)), ((200, 260), (1250, 1270)))
    clocks = hosts_of(two_hosts(tmp_path, *spans))
    # the second one says -1070 <= x <= -990, so both together -1070 <= x <= -990
    assert (clocks[1].offset_ns, clocks[1].uncertainty_ns) == (-1030, 40)
    assert clocks[1].num_exchanges == 2


def test_messages_narrow_it_further(tmp_path):
    first, second = Planted(0, host="a"), Planted(1, host="b")
    one, other = first.call(0, 0, 100), second.call(1040, 1040, 1090)
    first.message(one, Op.SEND, 1, 30, 35)
    second.message(other, Op.RECEIVE, 0, 1041, 1050)  # sent at 30: x >= -1020
    second.message(other, Op.SEND, 0, 1060, 1070)
    first.message(one, Op.RECEIVE, 1, 31, 80)  # arrived at 80: x <= -980
    clocks = hosts_of(plant(tmp_path, first, second))
    assert clocks[1] == HostClock(
        host="b", ranks=(1,), offset_ns=-1000, uncertainty_ns=20, num_exchanges=3
    )


def test_a_broadcast_bounds_nothing_by_itself(tmp_path):
    clocks = hosts_of(two_hosts(tmp_path, ((0, 100), (1040, 1090)), op=Op.BROADCAST))
    assert clocks[1].uncertainty_ns is None
    assert clocks[1].num_exchanges == 0
    assert "wall clocks" in clock_words(clocks[1])


def test_exchanges_that_no_offset_fits_are_contradictory(tmp_path):
    spans = (((0, 100), (1040, 1090)), ((200, 260), (2250, 2270)))
    clock = hosts_of(two_hosts(tmp_path, *spans))[1]
    assert clock.is_contradictory
    # -1090..-940 against -2070..-1990
    assert (clock.offset_ns, clock.uncertainty_ns) == (-1540, 450)
    assert "drifted" in clock_words(clock)


def test_hosts_are_joined_by_the_pairs_that_bound_each_other_best(tmp_path):
    ranks = [Planted(rank, 3, host) for rank, host in enumerate("abc")]
    groups = {"ab": (0, 1), "bc": (1, 2), "ac": (0, 2)}
    # b shows 1000 more than a, c shows 5000 more
    for group, spans in (
        ("ab", {0: (0, 20), 1: (1000, 1020)}),
        ("bc", {1: (1100, 1110), 2: (5100, 5110)}),
        ("ac", {0: (200, 900), 2: (5200, 5900)}),
    ):
        for rank, span in spans.items():
            ranks[rank].groups = groups
            ranks[rank].call(span[0], *span, group=group)
    found = hosts_of(plant(tmp_path, *ranks))
    assert [(clock.host, clock.offset_ns, clock.uncertainty_ns) for clock in found] == [
        ("a", 0, 0),
        ("b", -1000, 20),
        ("c", -5000, 20 + 10),
    ]


def test_an_offset_in_words():
    clock = HostClock(
        host="b", ranks=(1,), offset_ns=1_000_000_123, uncertainty_ns=85_000, num_exchanges=1204
    )
    assert clock_words(clock) == "+1.000000123 s ± 85 µs, from 1,204 exchanges"


shifts = st.lists(st.integers(0, 2 * 10**12), min_size=4, max_size=4)


@given(plan=plans(), shifts=shifts, places=st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_every_shift_is_found_within_its_uncertainty(plan, shifts, places):
    names = [f"host {place}" for place in places[: plan.num_ranks]]
    plan = replace(
        plan,
        hosts=tuple(names),
        shift_ns=dict(zip(("host 0", "host 1", "host 2"), shifts, strict=False)),
    )
    graph = build_graph(load_plan(plan))
    for clock in graph.clocks.hosts:
        true = plan.shift_ns[names[0]] - plan.shift_ns[clock.host]
        assert not clock.is_contradictory
        assert clock.uncertainty_ns is not None
        assert abs(clock.offset_ns - true) <= clock.uncertainty_ns
    path = critical_path(graph)
    assert sum(path.by_cause().values()) == path.duration_ns
    assert sum(piece.duration_ns for piece in path.pieces) == path.duration_ns
    assert slack(graph).min() >= 0
    for budget in budgets(graph).by_phase.values():
        parts = (budget.compute_ns, budget.exposed_ns, budget.waiting_ns, budget.other_ns)
        assert sum(parts) == budget.wall_ns


def test_with_one_clock_or_two_the_answer_is_nearly_the_same():
    def compute_ns(rank: int, *_: object) -> int:
        return 50_000 if rank == 1 else 10_000

    plan = Plan(compute_ns=compute_ns)
    other = replace(plan, hosts=("a", "b"), shift_ns={"b": 10**15})
    graphs = [build_graph(load_plan(one)).within(1) for one in (plan, other)]
    uncertainty = graphs[1].clocks.hosts[1].uncertainty_ns
    assert uncertainty < 1000
    waited = [budgets(graph).waited_for(1) for graph in graphs]
    assert abs(waited[0] - waited[1]) <= 20 * uncertainty
    lengths = [critical_path(graph).duration_ns for graph in graphs]
    assert abs(lengths[0] - lengths[1]) <= 2 * uncertainty


SHIFT_S = 1000
_RANK = """
import os, sys, torch.distributed as dist
rank, folder = int(sys.argv[1]), sys.argv[2]
os.environ.update(RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", OMP_NUM_THREADS="1")
import torch
import zerosim
from zerosim.train.collectives import InlineExecutor, Ring, world
from zerosim.schema.events import Phase
from zerosim.trace import labels
torch.set_num_threads(1)
dist.init_process_group("gloo")
ring = Ring(world(), InlineExecutor(), 1 << 20)
with zerosim.trace(folder):
    labels.enter(0, Phase.FORWARD)
    for _ in range(10):
        ring.all_reduce(torch.ones(64)).wait()
    labels.enter(-1, Phase.OUTSIDE)
dist.barrier()
dist.destroy_process_group()
"""


def _can_shift_clocks() -> bool:
    if shutil.which("unshare") is None:
        return False
    probe = ["unshare", "--uts", "--time", "--fork", "--monotonic", "1", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.ranks
@pytest.mark.root
def test_a_host_whose_clock_is_really_shifted(tmp_path):
    """Rank 1 in a time namespace of its own: its monotonic clock shows 1000 s more."""
    if not _can_shift_clocks():
        pytest.skip("needs root and a kernel with time namespaces (unshare --time)")
    python = [sys.executable, "-c", _RANK]
    shifted = ["unshare", "--uts", "--time", "--fork", "--monotonic", str(SHIFT_S)]
    inner = 'hostname other-host && exec "$@"'
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen([*command, str(rank), str(tmp_path)], env={**os.environ, **environment})
        for rank, command in enumerate((python, [*shifted, "sh", "-c", inner, "sh", *python]))
    ]
    try:
        assert [process.wait(600) for process in ranks] == [0, 0]
    finally:
        for process in ranks:
            process.kill()
    trace = load(tmp_path, strict=True)
    clocks = build_graph(trace).clocks.hosts
    assert clocks[1].host == "other-host"
    assert not clocks[1].is_contradictory
    assert clocks[1].uncertainty_ns < 10**8
    assert abs(clocks[1].offset_ns + SHIFT_S * 10**9) <= clocks[1].uncertainty_ns
    assert clocks[1].num_exchanges > 20
