"""Holistic Trace Analysis reads what was written: the same computation, communication, overlap."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict

import pytest

from zerosim.analysis.graph import build_graph
from zerosim.analysis.graph.kinds import NodeKind
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.view.export.files import write
from zerosim.view.export.hta import STREAMS, hta_files

REASON = "pip install --no-deps traceinsight, and networkx pandas plotly psutil pydot pyyaml"
RUNS = ("ring/stage-3", "profiles/fsdp2", "infinity/stage-3")


@pytest.fixture(scope="module", params=RUNS)
def written(request, tmp_path_factory):
    graph = build_graph(load(COMMITTED / request.param))
    folder = tmp_path_factory.mktemp("hta")
    files = hta_files(graph, folder)
    for file, content in files.items():
        write(file, content)
    return graph, folder


def lasting(graph, place, kind):
    """Microseconds of each piece of work of a rank."""
    nodes = (graph.place == place) & graph.is_kind(kind)
    return (graph.end[nodes] - graph.start[nodes])[graph.end[nodes] > graph.start[nodes]] / 1000


def kernels(folder, rank):
    events = json.loads((folder / f"rank-{rank}.json").read_text())["traceEvents"]
    return [one for one in events if one["cat"] == "kernel"]


def test_all_work_is_there_on_streams_where_nothing_overlaps(written):
    graph, folder = written
    for place, rank in enumerate(graph.trace.ranks):
        text = (folder / f"rank-{rank.rank}.json").read_text()
        assert re.search(r'"rank":\s+(\d+)', text)[1] == str(rank.rank)  # as HTA looks for it
        found = kernels(folder, rank.rank)
        for kind, first in STREAMS.items():
            mine = [one["dur"] for one in found if first <= one["tid"] < first + 100]
            wanted = lasting(graph, place, kind)
            assert sorted(mine) == pytest.approx(sorted(wanted.tolist()), abs=0.001)
        until = defaultdict(float)
        for one in sorted(found, key=lambda one: one["ts"]):
            assert one["ts"] >= until[one["tid"]] - 0.001
            until[one["tid"]] = one["ts"] + one["dur"]


def test_each_collective_says_what_a_record_of_pytorch_says(written):
    graph, folder = written
    rank = graph.trace.ranks[0]
    for one in kernels(folder, 0):
        args = one["args"]
        if not one["name"].startswith("nccl:all_gather"):
            continue
        assert args["Out msg nelems"] == args["In msg nelems"] * args["Group size"]
        ranks = rank.groups[args["Process Group Name"]].ranks
        assert json.loads(args["Process Group Ranks"]) == list(ranks)
        assert args["Seq"] >= 0


def test_what_starts_a_kernel_outlasts_whole_microseconds(written):
    """HTA rounds begins up and ends down; what is then empty is not on its critical path."""
    graph, folder = written
    for rank in graph.trace.ranks:
        events = json.loads((folder / f"rank-{rank.rank}.json").read_text())["traceEvents"]
        links = {one["args"]["correlation"]: one for one in events if one["cat"] == "cuda_runtime"}
        long = [one for one in events if one["cat"] == "kernel" and one["dur"] >= 4]
        assert long
        for one in long:
            start = links[one["args"]["correlation"]]
            assert math.floor(start["ts"] + start["dur"]) > math.ceil(start["ts"])


@pytest.mark.filterwarnings("ignore")
def test_hta_finds_a_path_in_every_step(written):
    analysis = pytest.importorskip("hta.trace_analysis", reason=REASON)
    graph, folder = written
    found = analysis.TraceAnalysis(trace_dir=str(folder))
    steps = {one for one in graph.iteration.tolist() if one >= 0}
    for rank in graph.trace.ranks:
        for step in range(len(steps)):
            path, is_found = found.critical_path_analysis(rank.rank, "ProfilerStep", step)
            assert is_found
            assert len(path.critical_path_nodes) >= 2


@pytest.mark.filterwarnings("ignore")
def test_hta_finds_as_much_of_each(written):
    analysis = pytest.importorskip("hta.trace_analysis", reason=REASON)
    graph, folder = written
    found = analysis.TraceAnalysis(trace_dir=str(folder))
    _, by_name = found.get_gpu_kernel_breakdown(visualize=False, num_kernels=1000)
    overlap = found.get_comm_comp_overlap(visualize=False)
    idle = found.get_temporal_breakdown(visualize=False)
    assert len(overlap) == len(idle) == len(graph.trace.ranks)
    for place, rank in enumerate(graph.trace.ranks):
        mine = by_name[by_name["rank"] == rank.rank]
        for kind, name in ((NodeKind.CALL, "COMMUNICATION"), (NodeKind.COMPUTE, "COMPUTATION")):
            wanted = lasting(graph, place, kind)
            total = mine[mine["kernel_type"] == name]["sum (us)"].sum()
            assert total == pytest.approx(
                wanted.sum(), abs=2 * len(wanted)
            )  # HTA cuts begins and ends to µs
