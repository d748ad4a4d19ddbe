"""PyTorch's systems and tensor parallelism, dry and for real: the same calls, bytes and peaks."""

from __future__ import annotations

import pytest
from torch.distributed import distributed_c10d

from tests.cli.command import assert_one_line, command
from tests.predict.simulate.test_dry import BESIDE, ON_CPU, asked, peaks
from tests.recorded import recorded_run, recorded_systems
from zerosim.base.config import EngineConfig, Implementation, RunConfig
from zerosim.predict.simulate.alike import alike_of
from zerosim.predict.simulate.simulate import run_dry
from zerosim.record import load
from zerosim.schema.events import Kind
from zerosim.schema.manifest import Alike
from zerosim.schema.memory import Role
from zerosim.train.launch.job import Job

pytestmark = [
    pytest.mark.ranks,
    # what PyTorch warns of when its own ZeroRedundancyOptimizer is imported
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
]

OF_MLP = ("ddp", "ddp-zero", "fsdp2", "fsdp2-bf16", "fsdp1")
KEPT = "fsdp2-kept"
OF_GPT = ("tensor-parallel", "1f1b", "gpipe")
_ON_EIGHT = (*OF_MLP, KEPT, "hsdp", "zerosim-1", "zerosim-3")
CASES = [("mlp", 3, name, OF_MLP) for name in OF_MLP]
LONG = [
    ("mlp", 3, KEPT, (KEPT,)),
    *(("gpt-tiny", 4, name, (*OF_GPT, "hsdp")) for name in (*OF_GPT, "hsdp")),
    *(("mlp", 8, name, _ON_EIGHT) for name in _ON_EIGHT),
]
WHEN_NOTICED = {Role.GRADIENTS}
"""FSDP2 frees a gradient when a reduction is over; when a rank notices depends on its threads."""


@pytest.fixture(autouse=True)
def first_group(monkeypatch):
    """Groups are named by how many a process has made, and this one may have made some."""
    monkeypatch.setattr(distributed_c10d, "_group_count", 0)


@pytest.mark.parametrize(
    ("model", "num_ranks", "name", "all_names"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in LONG)],
)
def test_a_system_calls_dry_what_it_calls_for_real(model, num_ranks, name, all_names, tmp_path):
    home = recorded_run(
        *("profiles", "--model", model, "--ranks", num_ranks, "--steps", 2, "--batch", 1),
        *("--only", ",".join(all_names), "--timeout", 200),
    )
    compare(load(home / name, strict=True), name, tmp_path / name)


def divisible(num_ranks):
    """A GPT whose heads and blocks so many ranks divide: a head and a block each."""
    return RunConfig(
        model="gpt-tiny", ranks=num_ranks, steps=2, batch=1, timeout_s=200,
        layers=num_ranks, heads=num_ranks, width=8 * num_ranks, context_length=16,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_ranks", "name"),
    [
        pytest.param(num_ranks, name, marks=[pytest.mark.long] * (num_ranks > 2))
        for num_ranks in (2, 3, 8)
        for name in OF_GPT
    ],
)
def test_a_divided_model_on_as_many_ranks_as_it_has_heads_and_blocks(num_ranks, name, tmp_path):
    home = recorded_systems(divisible(num_ranks), [Implementation(one) for one in OF_GPT])
    compare(load(home / name, strict=True), name, tmp_path / "dry")


@pytest.mark.parametrize(
    ("num_ranks", "name", "words"),
    [
        (3, "tensor-parallel", "3 ranks do not divide 4 heads"),
        (8, "tensor-parallel", "8 ranks do not divide 4 heads"),
        (3, "gpipe", "3 ranks do not divide 4 blocks"),
        (3, "hsdp", "3 ranks do not make two rows"),
    ],
)
def test_what_ranks_do_not_divide_is_refused_dry_as_for_real(num_ranks, name, words, tmp_path):
    asked_of = {
        "profiles": ("--model", "gpt-tiny", "--only", name),
        "simulate": ("--model", "gpt-tiny", "--system", name),
    }
    for what, options in asked_of.items():
        answer = command(what, *options, "--ranks", num_ranks, "--out", tmp_path / what)
        assert_one_line(answer, words)


def test_ranks_that_do_not_compute_together_evenly_are_refused_dry_as_for_real(tmp_path):
    for what in ("run", "simulate"):
        options = ("--ranks", 3, "--tensor-parallel", 2, "--out", tmp_path / what)
        assert_one_line(command(what, *options), "tensor-parallel is 2", "divisor of the 3 ranks")


ENGINE = [(4, 2), (3, 3), (8, 4), (8, 2)]


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize(
    ("num_ranks", "together"),
    [pytest.param(*case, marks=[pytest.mark.long] * (case[0] == 8)) for case in ENGINE],
)
def test_the_engine_beside_tensor_parallelism(num_ranks, together, stage, tmp_path):
    shape = ("--heads", 3, "--width", 48) if together == 3 else ("--width", 64)
    home = recorded_run(
        *("run", "--stage", "0,3", "--ranks", num_ranks, "--tensor-parallel", together, *shape),
        *("--layers", 2, "--steps", 1, "--batch", 1, "--checkpoint-activations"),
        *("--partition-activations", "--cpu-checkpointing", "--contiguous-memory"),
        *("--timeout", 200),
    )
    compare(load(home / f"stage-{stage}", strict=True), "", tmp_path / "dry")


def compare(real, name, folder):
    """Do a recorded run dry, and see that it is the same."""
    run = RunConfig.from_plain(real.manifest.run)
    known = name in list(Implementation)
    who = Implementation(name) if known else EngineConfig.from_plain(real.manifest.config)
    run_dry(Job(run, ((who, folder),)), who, folder, ON_CPU)
    dry = load(folder, strict=True)
    assert dry.complete
    assert len(dry.ranks) == len(real.ranks)
    without = BESIDE | WHEN_NOTICED
    for ran, foreseen in zip(real.ranks, dry.ranks, strict=True):
        assert ran.groups == foreseen.groups
        for kinds in ((Kind.COLLECTIVE, Kind.TRANSFER), (Kind.COMPUTE,), (Kind.COPY,)):
            assert asked(ran, *kinds) == asked(foreseen, *kinds)
        assert peaks(ran, without) == peaks(foreseen, without)
        assert ran.strategies[-1:] == foreseen.strategies[-1:] or not known


def test_ranks_with_the_same_pieces_are_alike():
    """The MLP's 256 rows in 10 pieces of 26: nine ranks have 26 and one 22; 64 of its input, 7."""
    run = RunConfig(model="mlp", ranks=10, steps=1, batch=1)
    (first, *_) = alike_of(run, Implementation.FSDP2)
    assert first == Alike(rank=0, first=1, last=8)
    assert alike_of(run, Implementation.DDP) == (Alike(rank=0, first=1, last=9),)
    assert alike_of(run, Implementation.DDP_ZERO) == ()
    few = RunConfig(model="mlp", ranks=8, steps=1, batch=1)
    assert alike_of(few, Implementation.DDP) == ()


def test_a_device_without_room_says_where(tmp_path):
    options = ("--stage", 0, "--model", "gpt-tiny", "--layers", 2, "--width", 32, "--batch", 1)
    limit = ("--ranks", 2, "--steps", 2, "--device-bytes", "900kB")
    real = command("run", *options, *limit, "--out", tmp_path / "real")
    dry = command("simulate", *options, *limit, "--out", tmp_path / "dry")
    assert (real.code, dry.code) == (3, 3)
    (said,) = dry.err.strip().splitlines()
    words = said.removeprefix("zerosim: rank 0 failed: ")
    assert words.startswith("OutOfMemory: out of device memory: ")
    assert words in real.err
