"""What a profile reached of a machine is found, and the plan of what it profiled takes as long."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import assert_one_line, command
from tests.record.importing.profiles import AUTOGRAD, STREAM, Made
from zerosim.base.config import EngineConfig
from zerosim.base.config.shapes import shape_of
from zerosim.base.tiers import Link
from zerosim.predict.placement import load_machine
from zerosim.predict.placement.belief import believed, load_software
from zerosim.predict.placement.nccl import RanksOnNodes
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import TimeCategory, step_times
from zerosim.schema.events import Op
from zerosim.theory.layout import Layout, native

RANKS, STEPS, COMPUTES = 2, 6, 7
PARAMETERS = 124_439_808
USUAL = believed(load_machine("dgx-h100"), load_software("torchtitan-2024"))
LAYOUT = Layout(
    shape=shape_of("gpt-2"),
    config=native(EngineConfig(stage=0)),
    data=RANKS,
    batch=8,
    sequence=1024,
    ranks_per_node=RANKS,
)
SAYS = ("--gpu", "h100", "--model", "gpt-2", "--batch", 8, "--stage", 0)


def profile(rank, *, passes, moved, update, idle, pieces=1):
    """Steps of DDP, times in microseconds.

    Args:
        passes: forward and backward compute, in so many kernels each, with a pause of as long.
        moved: gradients are added up, after backward.
        idle: the device has nothing to do before the next step, and 100 before its first kernel.
    """
    made, now, number = Made(rank=rank, num_ranks=RANKS), 100.0, 0

    def kernel(name, launched, begin, duration, stream=COMPUTES, **link):
        nonlocal number
        number += 1
        of = {"correlation": number, **link}
        made.span("cudaLaunchKernel", launched, 1, cat="cuda_runtime", correlation=number)
        made.span(name, begin, duration, cat="kernel", pid=0, tid=stream, **of)

    for step in range(STEPS):
        begin, device = now, now + 100
        made.span("DistributedDataParallel.forward", now, 20, cat="user_annotation")
        for launched, part in ((now + 5, passes / 3), (now + 30, passes * 2 / 3)):
            for _ in range(pieces):
                kernel("at::native::mm", launched, device, part / pieces)
                device += part / pieces * (1 if pieces == 1 else 2)
        engine = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
        made.span(engine, now + 25, 30, tid=AUTOGRAD)
        link, size = 100_000 + 10 * step, {"In_msg_nelems": PARAMETERS}
        made.span("c10d::allreduce_", now + 40, 10, tid=AUTOGRAD, External_id=link)
        made.span(
            "record_param_comms", now + 41, 8, tid=AUTOGRAD, External_id=link + 1,
            Collective_name="allreduce", Out_msg_nelems=PARAMETERS, dtype="BFloat16",
            Group_size=RANKS, Process_Group_Name="0", Process_Group_Ranks="[0, 1]", **size,
        )  # fmt: skip
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
        kernel(name, now + 43, device, moved, STREAM, External_id=link + 1)
        device += moved
        made.span("Optimizer.step#AdamW.step", now + 60, 20, cat="user_annotation")
        kernel("at::native::adam", now + 65, device, update)
        now = device + update + idle
        made.span(f"ProfilerStep#{step}", begin, now - begin, cat="user_annotation")
    return made


def saved(folder, **times):
    folder.mkdir()
    for rank in range(RANKS):
        profile(rank, **times).save(folder)
    return folder


@pytest.fixture
def usual():
    """What the usual software's constants say of a step, us."""
    times = step_times(Prices(USUAL), LAYOUT)
    moved = Prices(USUAL).collective(Op.ALL_REDUCE, 2 * PARAMETERS, RanksOnNodes(RANKS, 1)).ns
    return {
        "passes": times[TimeCategory.COMPUTE] / 1e3,
        "update": times[TimeCategory.UPDATE] / 1e3,
        "moved": moved / 1e3,
    }


def test_what_a_program_reaches_is_found_and_a_plan_takes_as_long(tmp_path, usual):
    slower = {name: 1.5 * us for name, us in usual.items()}
    folder = saved(tmp_path / "profile", **slower, idle=2_000)
    out = tmp_path / "mine.toml"
    found = json.loads(command("calibrate", folder, *SAYS, "--out", out, "--json").out)
    machine = load_machine(str(out))
    assert machine.achieved == pytest.approx(USUAL.achieved / 1.5, rel=0.01)
    assert machine.memory_achieved == pytest.approx(USUAL.memory_achieved / 1.5, rel=0.01)
    assert machine.step_ns == pytest.approx(2_100_000, rel=0.01)
    assert machine.nccl_bytes_per_second < 0.7 * USUAL.nccl_bytes_per_second
    assert machine.flops_per_second == USUAL.flops_per_second  # an MFU is of the data sheet
    (run,) = found["runs"]
    assert run["is_fitted"]
    # gradients of a unit are added up beside the backward of the one before in a plan
    assert run["predicted_ns"] == pytest.approx(run["recorded_ns"], rel=0.1)
    asked = ("--model", "gpt-2", "--gpus", 8, "--tokens-per-batch", "64k", "--json")
    plan = json.loads(command("plan", "--gpu", out, *asked).out)
    usual_plan = json.loads(command("plan", "--gpu", "h100", *asked).out)
    was, now = (found["fastest"][0]["predicted_step_s"] for found in (usual_plan, plan))
    assert 1.3 < now / was < 1.6


def test_a_rank_that_waits_for_another_one_does_not_wait_for_the_network(tmp_path, usual):
    folder = tmp_path / "profile"
    folder.mkdir()
    times = {**usual, "idle": 0, "passes": 2 * usual["passes"]}
    profile(0, **times).save(folder)
    early = {**times, "passes": usual["passes"], "moved": usual["moved"] + usual["passes"]}
    profile(1, **early).save(folder)
    out = tmp_path / "mine.toml"
    assert command("calibrate", folder, *SAYS, "--out", out).code == 0
    speed = load_machine(str(out)).link(Link.NODE).bytes_per_second
    assert speed == pytest.approx(USUAL.link(Link.NODE).bytes_per_second, rel=0.02)


@pytest.mark.parametrize("pieces", [1, 40])
def test_a_device_that_waits_for_its_program_says_how_fast_that_is(tmp_path, usual, pieces):
    """As idle time at the end of a step, or between its kernels."""
    idle = 40 * usual["passes"] if pieces == 1 else 9 * usual["passes"]
    passes = usual["passes"] * (1 if pieces == 1 else 10)
    folder = saved(tmp_path / "profile", **{**usual, "passes": passes}, idle=idle, pieces=pieces)
    out = tmp_path / "mine.toml"
    found = json.loads(command("calibrate", folder, *SAYS, "--out", out, "--json").out)
    machine = load_machine(str(out))
    assert machine.launch_ns > 10_000
    assert machine.achieved == USUAL.achieved
    (run,) = found["runs"]
    assert run["predicted_ns"] == pytest.approx(run["recorded_ns"], rel=0.1)


def test_a_profile_that_says_too_little_is_one_line(tmp_path, usual):
    folder = saved(tmp_path / "profile", **usual, idle=0)
    out = ("--out", tmp_path / "mine.toml")
    assert_one_line(command("calibrate", folder, *out), "--gpu", "--model", "--batch")
    words = ("expected --batch, --stage",)
    assert_one_line(command("calibrate", folder, *SAYS[:4], *out), *words)
    said = command("calibrate", folder, *SAYS[2:], *out)
    assert_one_line(said, "expected --gpu, such as --gpu h100")
    said = command("calibrate", folder, *SAYS, "--tensor-parallel", 3, *out)
    assert_one_line(said, "a divisor of the 2 ranks")
    for rank in range(RANKS):  # without kernels of its own
        made = profile(rank, **usual, idle=0)
        made.events = [one for one in made.events if not one["name"].startswith("at::native")]
        made.save(folder)
    assert_one_line(command("calibrate", folder, *SAYS, *out), "ProfilerActivity.CUDA")


@pytest.mark.ranks
def test_the_machine_of_a_simulated_run_is_found(tmp_path):
    """Its trace says model, batch and stage."""
    sizes = ("--model", "gpt-2", "--ranks", 8, "--stage", 3, "--batch", 8, "--steps", 3)
    asked = ("--collectives", "native", "--machine", "torchtitan-h100-compiled")
    assert command("simulate", *sizes, *asked, "--out", tmp_path / "run").code == 0
    out = tmp_path / "mine.toml"
    said = command("calibrate", tmp_path / "run", "--gpu", "h100", "--out", out, "--json")
    machine, (run,) = load_machine(str(out)), json.loads(said.out)["runs"]
    assert 1 <= machine.achieved / USUAL.achieved < 1.3  # a dry run has no loss and no copies
    assert machine.nccl_bytes_per_second == pytest.approx(USUAL.nccl_bytes_per_second, rel=0.02)
    assert run["predicted_ns"] == pytest.approx(run["recorded_ns"], rel=0.05)
