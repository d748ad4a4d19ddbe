"""`zerosim run --deepspeed-config`: what the file decides, explains and contradicts."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.base.config import EngineConfig
from zerosim.record import load
from zerosim.schema.events import Purpose

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "wall_clock_breakdown": True,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "weight_decay": 0.1}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2, "warmup_max_lr": 0.01}},
    "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 300_000},
}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--stage 2", ("--stage is 2", "says 3 (zero_optimization.stage)", "leave --stage out")),
        ("--stage all", ("--stage is all", "says 3")),
        ("--dtype bf16", ("--dtype is bf16", "says fp32 (fp16.enabled and bf16.enabled)")),
        ("--batch 4", ("--batch is 4", "says 2 (train_micro_batch_size_per_gpu)")),
        ("--accumulate 1", ("says 2 (gradient_accumulation_steps)",)),
        ("--bucket-elements 7", ("says 500000000 (zero_optimization.reduce_bucket_size)",)),
        ("--no-overlap", ("--overlap is False", "says True (zero_optimization.overlap_comm)")),
        ("--prefetch 1", ("--prefetch is 1", "300000 elements")),
        ("--clip 2", ("--clip is 2.0", "says 1.0 (gradient_clipping)")),
        ("--learning-rate 0.1", ("--learning-rate is 0.1", "says 0.01")),
        ("--collectives mpi", ("'mpi'", "ring, native")),
        ("--ranks 0", ("ranks is 0", "1 or more")),
    ],
)
def test_options_that_contradict_the_file(file, no_ranks, options, words):
    answer = command("run", "--deepspeed-config", file, *options.split())
    assert_one_line(answer, *words)


def test_files_that_are_no_use(tmp_path, no_ranks):
    answer = command("run", "--deepspeed-config", tmp_path / "none.json")
    assert_one_line(answer, "none.json does not exist", "JSON")
    bad = tmp_path / "bad.json"
    bad.write_text('{"train_batch_size": 4, "zero_optimization": {"stag": 1}}')
    answer = command("run", "--deepspeed-config", bad, "--explain")
    assert_one_line(answer, '"stag"', "zero_optimization", "stage")
    assert_one_line(command("run", "--explain"), "--explain", "give --deepspeed-config")


def test_each_key_is_explained(file, no_ranks):
    options = ("--stage", 3, "--learning-rate", 0.01, "--explain")  # what agrees may be said
    answer = command("run", "--deepspeed-config", file, *options)
    assert (answer.code, answer.err) == (0, "")
    keys, _ = answer.out.split("\n\n")
    rows = {line.split()[0]: line for line in keys.splitlines()}
    assert " honoured " in rows["zero_optimization.stage"]
    assert " ignored " in rows["wall_clock_breakdown"]
    assert " DeepSpeed's default " in rows["gradient_clipping"]
    plain = json.loads(command("run", "--deepspeed-config", file, *options, "--json").out)
    assert {row["path"]: row["treatment"] for row in plain["keys"]} == {
        path: treatment
        for path, line in rows.items()
        for treatment in ("honoured", "ignored")
        if f" {treatment} " in line
    }
    assert plain["batch"] == {"train": 16, "micro": 2, "accumulate": 2}
    assert EngineConfig.from_plain(plain["engine"]).stage == 3
    assert plain["defaults"]["gradient_clipping"] == "1.0"


@pytest.mark.ranks
def test_a_run_follows_the_file_and_is_proved(file, tmp_path):
    options = ("--model", "mlp", "--ranks", 2, "--steps", 2, "--json")
    answer = command("run", "--deepspeed-config", file, *options, "--out", tmp_path / "t")
    assert answer.code == 0, answer
    assert answer.err.splitlines() == [
        f"note: {file}: zerosim ignores wall_clock_breakdown; --explain lists every key"
    ]
    assert json.loads(answer.out)["outcome"] == "as predicted"
    trace = load(tmp_path / "t", strict=True)
    config = EngineConfig.from_plain(trace.manifest.config)
    assert (config.stage, config.accumulate, config.clip) == (3, 2, 1.0)
    assert (config.learning_rate, config.weight_decay) == (0.01, 0.1)
    sizes = sorted((unit.padded_elements for unit in trace.manifest.units), reverse=True)
    assert config.prefetch == len(sizes) - 1  # all of them fit
    assert trace.manifest.run["batch"] == 2
    # the warm-up begins with a rate of 0, so the first step changed nothing
    fresh = command(
        "run", "--stage", 3, "--dtype", "fp32", "--batch", 2, "--accumulate", 2, *options[:-1],
        "--learning-rate", 0, "--json", "--out", tmp_path / "fresh",
    )  # fmt: skip
    assert json.loads(fresh.out)["losses"] == json.loads(answer.out)["losses"]


@pytest.mark.ranks
def test_the_whole_family_by_a_file(tmp_path):
    disk = {"device": "nvme", "nvme_path": str(tmp_path / "disk")}
    family = {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 0.01}},
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": disk,
            "offload_param": {"device": "cpu"},
            "zero_quantized_weights": True,
            "zero_quantized_gradients": True,
        },
        "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": True},
    }
    file = tmp_path / "ds_config.json"
    file.write_text(json.dumps(family))
    options = ("--model", "gpt-tiny", "--layers", 1, "--width", 32, "--ranks", 4, "--steps", 2)
    answer = command(
        "run", "--deepspeed-config", file, *options, "--tensor-parallel", 2, "--json",
        "--out", tmp_path / "t",
    )  # fmt: skip
    assert answer.code == 0, answer
    assert json.loads(answer.out)["outcome"] == "as predicted"
    trace = load(tmp_path / "t", strict=True)
    config = EngineConfig.from_plain(trace.manifest.config)
    assert (config.offload_optimizer, config.offload_param) == ("nvme", "cpu")
    assert config.quantize_weights
    assert config.quantize_gradients
    assert config.checkpoint_activations
    assert config.partition_activations
    assert config.cpu_checkpointing
    purposes = {event.purpose for event in trace.ranks[0].events}
    assert {
        Purpose.FETCH_STATES,
        Purpose.FETCH_PARAMETERS,
        Purpose.OFFLOAD_GRADIENTS,
        Purpose.OFFLOAD_ACTIVATIONS,
        Purpose.GATHER_ACTIVATIONS,
    } <= purposes
