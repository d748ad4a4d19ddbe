"""NCCL's calls, in the form in which each version of PyTorch wrote them."""

import pytest

import zerosim
from tests.cli.command import command
from tests.record.importing.profiles import BASE_NS, STREAM, Made, record
from zerosim.record import load
from zerosim.record.importing import import_run
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.verify import verify

ALL_REDUCE = "c10d::allreduce_"
ONE = record("allreduce", 1000, 1000)
SHAPES = ([[[1000]], []], ["TensorList", ""])


def imported(tmp_path, *made):
    files = [one.save(tmp_path) for one in made]
    import_run(files, tmp_path / "trace")
    return load(tmp_path / "trace")


def calls(trace):
    return [e for e in trace.ranks[0].events if e.kind is Kind.COLLECTIVE]


def without(args, *names, **others):
    return {key: value for key, value in args.items() if key not in names} | others


NAMED = ("Process Group Name", "Process Group Ranks")
FORMS = {
    "2.13": ONE | {"Seq": 41, "Comms Id": 2**63 - 5},
    "2.4": ONE,
    "2.3": without(ONE, "Process Group Name", **{"Process Group ID": "0"}),
    "2.2": without(
        ONE,
        *NAMED,
        "In msg nelems",
        "Out msg nelems",
        **{"In msg size": 1000, "Out msg size": 1000},
    ),
    "elided": ONE
    | {"Process Group Ranks": "[0, ..., 3]", "Global rank start": 0, "Global rank stride": 1},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("linked", [True, False])
def test_a_call_of_each_version(tmp_path, form, linked):
    made = Made(groups=form != "elided")
    made.call(ALL_REDUCE, FORMS[form], linked=linked)
    (event,) = calls(imported(tmp_path, made))
    assert (event.op, event.dtype, event.elements) == (Op.ALL_REDUCE, "float32", 1000)
    assert (event.payload_bytes, event.group, event.algorithm) == (4000, "0", "nccl")
    assert event.sequence == FORMS[form].get("Seq", 0)
    assert event.issue_ns == BASE_NS + 101_000
    assert (event.start_ns, event.end_ns) == (BASE_NS + 140_000, BASE_NS + 165_000)


def test_a_version_that_says_only_shapes_has_sizes_and_no_group(tmp_path):
    made = Made(groups=False)
    made.call("c10d::alltoall_base_", {}, ([[64], [64]], ["float", "float"]), linked=False)
    made.call(ALL_REDUCE, {}, SHAPES, linked=False)
    trace = imported(tmp_path, made)
    exchange, reduction = calls(trace)
    assert (exchange.payload_bytes, exchange.group, exchange.sequence) == (256, "", None)
    # of a list only the backend says the type, and here it does not
    assert (reduction.payload_bytes, reduction.operator) == (0, ALL_REDUCE)
    answer = command("show", tmp_path / "trace", "--iteration", "all")
    assert "not recorded" in answer.out
    answer = command("verify", tmp_path / "trace")
    assert answer.code == 0
    assert "the group of 2 of 2 calls is not recorded" in answer.out


def test_a_call_without_an_operator_is_told_by_what_the_backend_says_within_it(tmp_path):
    """Before PyTorch 2.0 all-to-alls passed no operator, and records had no name."""
    made = Made()
    link = {"External_id": 900}
    made.span("record_param_comms", 200, 20, **link)
    made.span("nccl:all_to_all", 202, 10, Input_Dims=[[2, 50]], Input_type=["float"])
    made.span("cudaLaunchKernel", 204, 2, cat="cuda_runtime", correlation=900)
    made.span("ncclKernel_SendRecv", 240, 25, cat="kernel", pid=0, tid=STREAM, correlation=900)
    made.span("record_param_comms", 300, 5)  # a wait
    trace = imported(tmp_path, made)
    (event,) = calls(trace)
    assert (event.op, event.elements, event.payload_bytes) == (Op.ALL_TO_ALL, 100, 400)
    assert (event.group, event.algorithm) == ("0", "nccl")
    assert (event.start_ns, event.end_ns) == (BASE_NS + 240_000, BASE_NS + 265_000)
    assert not any("belong" in note for note in trace.manifest.notes)


def test_another_backend_is_neither_nccl_nor_gloo(tmp_path):
    made = Made()
    made.header["distributedInfo"]["backend"] = "mtia:hccl,cpu:gloo"
    made.span("c10d::alltoall_base_", 200, 20, Input_Dims=[[6], [6]], Input_type=["long", "long"])
    made.span("hccl:all_to_all", 202, 10)
    (event,) = calls(imported(tmp_path, made))
    assert (event.op, event.payload_bytes, event.algorithm) == (Op.ALL_TO_ALL, 48, "other")


def test_what_to_try_is_not_what_was_done(tmp_path):
    """Shapes were recorded; those of a list of lists never are."""
    made = Made()
    made.span("c10d::allgather_", 200, 20, Input_Dims=[[], [[6]]], Input_type=["", "TensorList"])
    trace = imported(tmp_path, made)
    (note,) = (note for note in trace.manifest.notes if "sizes" in note)
    assert "record_shapes" not in note
    assert "execution traces beside the profiles" in note


def test_a_job_of_data_parallel_ranks_from_one_of_them(tmp_path):
    made = Made(rank=2)
    sizes = (700, 300)
    for number in (5, 6):
        buckets = [(ALL_REDUCE, record("allreduce", one, one)) for one in sizes]
        made.step(number, buckets)
    made.span("record_param_comms", made.now, 5, Collective_name="wait", Group_size=1)
    trace = imported(tmp_path, made)
    found = calls(trace)
    assert [(e.iteration, e.phase, e.unit, e.purpose, e.elements) for e in found] == [
        (number, Phase.BACKWARD, f"bucket {place}", Purpose.REDUCE_GRADIENTS, size)
        for number in (5, 6)
        for place, size in enumerate(sizes)
    ]
    report = verify(trace)
    assert report.num_parameters == 1000
    assert report.systems[0].formula == "2Ψ(N-1)/N"
    assert report.systems[0].sent_bytes == 2 * 4000 * 3 / 4
    assert any("the files of ranks 0-1, 3 are missing" in note for note in report.notes)
    large, small = reversed(zerosim.load(tmp_path / "trace").graph_report().bandwidths)
    assert (large.payload_bytes, large.num_ranks, large.call_ns) == (2800, 4, 25_000)
    assert large.bus_bytes_per_s == 2800 * 1.5 / 25e-6  # nccl-tests: 2(N-1)/N
    assert small.moving_ns is None  # when the others came is not recorded


def test_an_iteration_that_the_window_cuts_is_none(tmp_path):
    made = Made()
    made.call(ALL_REDUCE, ONE)  # the forward before it was not seen
    made.span("Optimizer.step#SGD.step", made.now, 50, cat="user_annotation")
    made.now += 100
    made.step(None, [(ALL_REDUCE, ONE)])
    made.step(None, [(ALL_REDUCE, ONE)], update=False)
    trace = imported(tmp_path, made)
    assert [e.iteration for e in calls(trace)] == [-1, 0, -1]
    assert verify(trace).iterations == (0,)


def test_several_ranks_are_matched_and_their_hosts_told_apart(tmp_path):
    ranks = [Made(rank=rank, host_name=f"host{rank // 2}") for rank in range(4)]
    for one in ranks:
        one.step(0, [(ALL_REDUCE, ONE)])
    trace = imported(tmp_path, *ranks)
    assert [rank.header.host for rank in trace.ranks] == ["host0", "host0", "host1", "host1"]
    assert [rank.header.node for rank in trace.ranks] == [0, 0, 1, 1]
    assert "1 collectives matched" in command("verify", tmp_path / "trace", "-v").out


def test_what_leaves_no_record_is_said(tmp_path):
    made = Made()
    made.call(ALL_REDUCE, ONE)
    for place in range(3):
        made.span("symm_mem::multimem_all_reduce_", 500 + 10 * place, 5)
        made.span("multimem_all_reduce_kernel<4>", 500 + 10 * place, 5, cat="kernel")
    made.span("ncclDevKernel_Generic", 10, 5, cat="kernel", correlation=3)
    trace = imported(tmp_path, made)
    notes = " ".join(trace.manifest.notes)
    assert "symm_mem::multimem_all_reduce_ ran 3 times" in notes
    assert "1 NCCL kernel belongs to no recorded call" in notes
    assert [e.op for e in calls(trace)] == [Op.ALL_REDUCE, *3 * [Op.UNKNOWN]]
    report = verify(trace)
    assert (report.unrecorded, report.total("trace", 0)) == (3, None)
    assert report.holds is None
    printed = command("verify", tmp_path / "trace")
    assert printed.code == 0
    assert "at least 6,000" in printed.out
    assert "The sizes of 3 more calls of a rank are not recorded." in " ".join(printed.out.split())
    graph = " ".join(command("graph", tmp_path / "trace").out.split())
    assert "the ends of 3 calls were not recorded; each counts as ended" in graph
    assert "- every message was received unaltered: no messages were recorded" in graph


def test_what_nobody_recorded_is_no_violation_and_no_zero(tmp_path):
    ranks = [Made(rank=rank, groups=False) for rank in range(2)]
    for one in ranks:
        one.header["distributedInfo"]["world_size"] = 2
        one.call(ALL_REDUCE, {}, SHAPES, linked=False)
    imported(tmp_path, *ranks)
    answer = command("graph", tmp_path / "trace")
    assert answer.code == 0
    assert "the ranks of 2 calls are not recorded" in " ".join(answer.out.split())
    assert "it is unknown whether ranks waited for each other" in " ".join(answer.out.split())
    total = next(x for x in command("verify", tmp_path / "trace").out.splitlines() if "total" in x)
    assert "not recorded" in total
    assert not any(sign.isdigit() for sign in total)
