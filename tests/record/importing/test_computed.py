"""Computing and idle time of a device, compared with HTA's definitions."""

from __future__ import annotations

import json

import pytest

from tests.record.importing.profiles import STREAM, Made
from zerosim.analysis.budget import budgets
from zerosim.analysis.graph import build_graph
from zerosim.record import load
from zerosim.record.importing import import_run
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.verify import verify

COMPUTES = 7
"""The stream that computes."""


def kernel(made, launched, begin, duration, stream=COMPUTES):
    """A kernel of PyTorch's, launched at a time, carried out at another."""
    made.links += 10
    number = 9000 + made.links
    made.span("cudaLaunchKernel", launched, 1, cat="cuda_runtime", correlation=number)
    args = {"correlation": number, "External_id": number}
    made.span("at::native::mm", begin, duration, cat="kernel", pid=0, tid=stream, **args)


def annotate(made, name, begin, duration):
    made.span(name, begin, duration, cat="user_annotation")


def call(made, name, begin, kernel_begin, duration, given, gotten, dtype):
    """A collective inside of the annotation that stands around it, on the program's thread."""
    made.links += 10
    number, link = 1000 + made.links, made.links
    kind = "allgather" if gotten > given else "reduce_scatter"
    op = "c10d::_allgather_base_" if gotten > given else "c10d::_reduce_scatter_base_"
    said = {"Collective_name": f"_{kind}_base", "In_msg_nelems": given, "Out_msg_nelems": gotten}
    said |= {"dtype": dtype, "Group_size": 2, "Process_Group_Name": "0"}
    annotate(made, name, begin, 20)
    made.span(op, begin + 1, 15, External_id=link)
    made.span(
        "record_param_comms", begin + 2, 10, External_id=link + 1,
        **said, Process_Group_Ranks="[0, 1]",
    )  # fmt: skip
    made.span("cudaLaunchKernel", begin + 3, 1, cat="cuda_runtime", correlation=number)
    args = {"correlation": number, "External_id": link + 1}
    made.span(
        f"ncclDevKernel_{kind}", kernel_begin, duration, cat="kernel", pid=0, tid=STREAM, **args
    )


def step(rank):
    """One iteration of FSDP2 with one module and a root, in bf16, reduced in fp32."""
    made = Made(rank=rank, num_ranks=2)
    annotate(made, "FSDP::root_pre_forward", 90, 5)
    annotate(made, "FSDP::pre_forward", 96, 2)
    call(made, "FSDP::all_gather (blocks.0)", 130, 200, 100, 500, 1000, "BFloat16")
    annotate(made, "FSDP::pre_forward (blocks.0)", 155, 5)
    kernel(made, 165, 300, 40)
    kernel(made, 170, 340, 20)
    annotate(made, "FSDP::post_forward (blocks.0)", 180, 5)
    call(made, "FSDP::all_gather", 100, 180, 20, 100, 200, "BFloat16")
    engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    made.span(engine, 395, 1)
    annotate(made, "FSDP::pre_backward (blocks.0)", 400, 5)
    call(made, "FSDP::all_gather (blocks.0)", 410, 430, 60, 500, 1000, "BFloat16")
    kernel(made, 435, 480, 30)  # begins before the gather is over: 10 us of it are hidden
    for size in (1000, 200):
        shapes = {"Input_Dims": [[size]], "Input_type": ["c10::BFloat16"]}
        made.span(engine, 440 + size / 100, 1)
        made.span("torch::autograd::AccumulateGrad", 440.1 + size / 100, 0.5, **shapes)
    call(made, "FSDP::post_backward_reduce (blocks.0)", 460, 520, 50, 1000, 500, "Float")
    call(made, "FSDP::post_backward_reduce", 490, 570, 10, 200, 100, "Float")
    annotate(made, "Optimizer.step#AdamW.step", 600, 50)
    kernel(made, 610, 700, 10)
    return made


@pytest.fixture
def imported(tmp_path):
    files = [step(rank).save(tmp_path) for rank in range(2)]
    import_run(files, tmp_path / "trace")
    return load(tmp_path / "trace"), files


def of_hta(file):
    """Exposed and hidden communication by HTA's definition, ns: what NCCL's kernels cover together
    (`get_comm_comp_overlap`), without and within what the other kernels cover.
    """
    events = [one for one in json.loads(file.read_text())["traceEvents"] if one["cat"] == "kernel"]
    moments = {True: set(), False: set()}
    for one in events:
        span = range(round(one["ts"] * 10), round((one["ts"] + one["dur"]) * 10))
        moments["nccl" in one["name"]] |= set(span)
    communicates, computes = moments[True], moments[False]
    return len(communicates - computes) * 100, len(communicates & computes) * 100


def test_exposed_and_hidden_communication_are_htas(imported):
    trace, files = imported
    found = budgets(build_graph(trace))
    for rank, file in enumerate(files):
        whole = found.of(rank=rank)
        exposed, hidden = of_hta(file)
        assert (exposed, hidden) == (230_000, 10_000)
        assert (whole.exposed_ns + whole.waiting_ns, whole.hidden_ns) == (exposed, hidden)


def test_kernels_are_computations_of_units(imported):
    trace, _ = imported
    computed = [one for _, one in trace.ranks[0].events.of_kind(Kind.COMPUTE)]
    assert [(one.phase, one.unit) for one in computed] == [
        (Phase.FORWARD, "blocks.0"),
        (Phase.BACKWARD, "blocks.0"),
        (Phase.UPDATE, ""),
    ]
    assert all(one.device_end_ns == one.end_ns for one in computed)
    forward = computed[0]
    assert forward.device_end_ns - forward.device_begin_ns == 60_000


def test_a_stall_knows_what_it_is_for(imported):
    trace, _ = imported
    rank = trace.ranks[0]
    awaited = [rank.events.find(one.parent) for _, one in rank.events.of_kind(Kind.WAIT)]
    assert [one.purpose for one in awaited].count(Purpose.REDUCE_GRADIENTS) == 1
    assert {one.kind for one in awaited} == {Kind.COLLECTIVE}


def test_what_travels_in_more_bytes_has_its_cause(imported):
    """The law and the causes are those that the traced program has."""
    report = verify(imported[0])
    assert report.headline == (
        "This program sends 3.83Ψ(N-1)/N a step, like ZeRO-3 (3Ψ(N-1)/N); root parameters kept "
        "after forward: - 0.17Ψ(N-1)/N; gradients are reduced with 4 B an element, parameters "
        "gathered with 2: + Ψ(N-1)/N."
    )
    assert report.unexplained_trace == 0


def imported_from(made, folder):
    import_run([one.save(folder) for one in made], folder / "trace")
    return load(folder / "trace")


def test_two_streams_that_compute_are_one_computation_where_they_overlap(tmp_path):
    """Another stream is not one that prepares communication if it computes half as long."""
    made = [step(rank) for rank in range(2)]
    for one in made:
        kernel(one, 172, 330, 50, stream=21)  # within 300 to 340 and 340 to 360, and on to 380
    trace = imported_from(made, tmp_path)
    computed = [one for _, one in trace.ranks[0].events.of_kind(Kind.COMPUTE)]
    forward = [one for one in computed if one.phase is Phase.FORWARD]
    assert sum(one.device_end_ns - one.device_begin_ns for one in forward) == 80_000


def test_a_device_that_is_seldom_idle_has_an_exact_idle_time(tmp_path):
    """Gaps count as computing where they are few beside the time in which it does nothing."""
    made = [step(rank) for rank in range(2)]
    for one in made:
        for number in range(3):
            kernel(one, 172, 361 + 5 * number, 4)
    trace = imported_from(made, tmp_path)
    computed = [one for _, one in trace.ranks[0].events.of_kind(Kind.COMPUTE)]
    lengths = [one.device_end_ns - one.device_begin_ns for one in computed]
    assert lengths == [60_000, 4_000, 4_000, 4_000, 30_000, 10_000]
