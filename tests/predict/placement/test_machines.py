"""Machines, and what things cost on them: by hand where a hand can follow."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.analysis.graph.plans import load_plan
from tests.analysis.graph.runs import Plan
from tests.predict.placement.test_place import times
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Link
from zerosim.predict.placement import Modelled, known_machines, load_machine, place
from zerosim.predict.placement.collective_steps import CollectiveSteps, hierarchical, steps
from zerosim.predict.placement.machine import Fraction
from zerosim.predict.placement.nccl import RanksOnNodes, nccl_time
from zerosim.schema.events import Algorithm, Kind, Op

SMALL = """
title = "two ranks of a classroom"
[compute]
flops_per_second = { value = 1e12, source = "a test" }
fraction = { value = [[0, 0.5]], source = "a test" }
[memory]
bytes_per_second = { value = 1e10, source = "a test" }
fraction = { value = [[0, 1.0]], source = "a test" }
[node]
bytes_per_second = { value = 1e9, source = "a test" }
latency_ns = { value = 500, source = "a test" }
"""


@dataclass(frozen=True)
class Product:
    calls: int
    flops: int
    touched_bytes: int


def small(tmp_path):
    file = tmp_path / "small.toml"
    file.write_text(SMALL)
    return load_machine(str(file))


def test_every_machine_loads_and_says_where_each_number_is_from():
    assert {"v100", "a100-40", "a100-80", "h100", "h200", "b200"} < set(known_machines())
    assert {"dgx-2", "p4d", "dgx-a100", "dgx-h100", "nvl72"} < set(known_machines())
    for name in known_machines():
        machine = load_machine(name)
        assert machine.link(Link.NODE).bytes_per_second > machine.link(Link.BUS).bytes_per_second
        assert (machine.ranks_per_node is None) == (Link.NETWORK not in machine.links)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("h1000", None, "there is no machine 'h1000': expected one of a100-40, "),
        ("none.toml", None, "none.toml: cannot be read: No such file"),
        (
            "small.toml",
            SMALL.replace('source = "a test"', 'source = ""', 1),
            "expected a value and",
        ),
        ("small.toml", SMALL.replace("[memory]", "[memories]"), "'memory' is missing"),
        ("small.toml", "[", "Invalid"),
    ],
)
def test_a_machine_that_is_none_is_one_line(tmp_path, monkeypatch, name, text, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as error:
        load_machine(name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_between_two_sizes_the_fraction_grows():
    fraction = Fraction(((0, 0.1), (100, 0.2), (10_000, 0.8)))
    assert [fraction.at(size) for size in (0, 50, 100, 1000, 10_000, 1e9)] == pytest.approx(
        [0.1, 0.15, 0.2, 0.4, 0.8, 0.8]
    )


def test_steps_of_collectives():
    assert steps(Op.ALL_REDUCE, Algorithm.RING, 4) == CollectiveSteps(6, 1.5)
    assert steps(Op.REDUCE_SCATTER, Algorithm.RING, 4) == CollectiveSteps(3, 0.75)
    assert steps(Op.REDUCE_SCATTER, Algorithm.GLOO, 4) == CollectiveSteps(6, 1.5)
    assert steps(Op.BROADCAST, Algorithm.GLOO, 5) == CollectiveSteps(3, 3)
    assert steps(Op.ALL_TO_ALL, Algorithm.PAIRWISE, 4) == CollectiveSteps(3, 0.75)
    assert hierarchical(Op.ALL_GATHER, 8, 4) == (
        CollectiveSteps(7, 0.875),
        CollectiveSteps(3, 0.75 / 8),
    )
    with pytest.raises(ConfigError, match="duration of unknown is unknown"):
        steps(Op.UNKNOWN, Algorithm.RING, 2)


def test_what_nccl_expects_by_hand():
    machine = load_machine("dgx-a100")
    # 1 GiB on 8 A100: ring, Simple: 8.4 us + 14 hops of 3.4 us + 1 GiB at 240 GB/s x 8 / 14, and
    # 35 us that a call was measured to take beyond NCCL's model
    large = nccl_time(machine, Op.ALL_REDUCE, RanksOnNodes(8, 1), 1 << 30)
    assert (large.algorithm, large.protocol) == ("ring", 2)
    assert large.time_us == pytest.approx(35 + 8.4 + 14 * 3.4 + (1 << 30) * 14 / 8 / 240e3)
    # 1 KiB: LL, 6.6 us + 14 hops of 0.6 us, and the overhead
    little = nccl_time(machine, Op.ALL_REDUCE, RanksOnNodes(8, 1), 1 << 10)
    assert little.protocol == 0
    # all-gather over 4 nodes: 200 GB/s leave a node
    wide = nccl_time(machine, Op.ALL_GATHER, RanksOnNodes(32, 4), 1 << 30)
    assert wide.time_us == pytest.approx(35 + 8.4 + 28 * 3.4 + 3 * 14 + (1 << 30) * 31 / 32 / 200e3)
    assert (
        nccl_time(load_machine("h200"), Op.ALL_REDUCE, RanksOnNodes(8, 1), 1 << 30).algorithm
        == "nvls"
    )


@pytest.mark.parametrize(
    ("machine", "num_ranks", "num_nodes", "mib", "measured_us"),
    [
        # all-reduces: vTrain's tables (A100, V100); stas00/ml-engineering (H200, B200)
        *(("dgx-a100", 8, 1, mib, us) for mib, us in ((64, 580), (256, 2162), (1024, 8193))),
        *(("dgx-2", 8, 1, mib, us) for mib, us in ((64, 911), (1024, 13969))),
        *(("h200", 8, 1, mib, us) for mib, us in ((256, 1077), (1024, 4050))),
        ("dgx-h100", 32, 4, 4096, 22_800),
    ],
)
def test_that_is_what_was_measured_for_large_payloads(
    machine, num_ranks, num_nodes, mib, measured_us
):
    layout = RanksOnNodes(num_ranks, num_nodes)
    predicted = nccl_time(load_machine(machine), Op.ALL_REDUCE, layout, mib << 20).time_us
    assert predicted == pytest.approx(measured_us, rel=0.1)


def test_a_run_on_a_machine_by_hand(tmp_path):
    trace = load_plan(Plan(num_ranks=2, stage=1, units=("a",), iterations=1, gap_ns=0))
    # two products of 500 FLOPs at 0.5 x 1e12 a second take 1 ns each, but read 30 bytes in 3
    work = Product(calls=2, flops=500, touched_bytes=30)
    predicted = place(trace, Modelled(small(tmp_path), lambda tasks: [[work]] * len(tasks.rows)))
    begin = trace.ranks[0].wire_samples[0].time_ns
    # forward and backward take 6 ns each, a message of 2048 bytes 500 + 2048 ns, the update 6 ns
    computed = [(start - begin, end - begin) for *_, start, end in times(predicted, Kind.COMPUTE)]
    assert computed[:3] == [(0, 6), (6, 12), (12 + 2548, 12 + 2548 + 6)]
    gather = times(predicted, Kind.COLLECTIVE)[1]
    assert (gather[5] - begin, gather[6] - begin) == (2566, 2566 + 2548)


def test_where_cores_are_few_messages_and_computations_take_turns(tmp_path):
    trace = load_plan(Plan(num_ranks=4, stage=1, units=("a",), iterations=1, gap_ns=0))

    def duration(machine, *operations):
        model = Modelled(machine, lambda tasks: [operations] * len(tasks.rows))
        ends = times(place(trace, model), *Kind)
        return max(end for *_, end in ends) - min(start for *_, start, _ in ends)

    enough = duration(small(tmp_path))
    text = 'cores = { value = 2, source = "a test" }\n' + SMALL
    (tmp_path / "few.toml").write_text(text)
    few = load_machine(str(tmp_path / "few.toml"))
    assert duration(few) == 2 * enough
    work = Product(calls=1, flops=10_000_000, touched_bytes=0)
    assert duration(few, work) == pytest.approx(2 * duration(small(tmp_path), work), rel=1e-3)


def test_without_a_network_there_are_no_nodes():
    with pytest.raises(ConfigError, match="'h100' has no bandwidth for bytes between nodes"):
        nccl_time(load_machine("h100"), Op.ALL_REDUCE, RanksOnNodes(16, 2), 1)
