"""`zerosim plan`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.base.config import EngineConfig
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan import ask, make_plan, notes_on, parse_tokens
from zerosim.predict.plan.layout_names import KINDS
from zerosim.predict.plan.layouts import Fixed, Variant, layouts
from zerosim.predict.plan.strong_scaling import scaled
from zerosim.predict.plan.written import deepspeed_config, simulate_command, torch_calls
from zerosim.theory.saved import Recompute
from zerosim.train.deepspeed.config import read_settings

SMALL = ("--model", "gpt-2", "--gpus", 16, "--tokens-per-batch", "512k")


@pytest.fixture(scope="module")
def plan():
    return make_plan(ask("llama-3-8b", 64, "h100", parse_tokens("4M")))


def test_what_it_prints():
    answer = command("plan", *SMALL)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("Predicted: gpt-2 on 16 GPUs of dgx-h100, 524,288 tokens a step")
    for words in (
        "predicted, the fastest that fit",
        "predicted, the fastest of each kind",
        "Predicted peak of a GPU",
        "predicted: where the time of one step goes",
        "limited by",
        "predicted from measurements of torchtitan of 2024 (FSDP2, torch.compile), with",
        "the machine's bound is",
        "predicted to fit in this layout: a micro-batch of",
        '"train_micro_batch_size_per_gpu"',
        "next: zerosim simulate --stage",
    ):
        assert words in answer.out, words


def test_json_says_predicted_of_every_number():
    answer = command("plan", *SMALL, "--json")
    found = json.loads(answer.out)
    assert found["evidence"] == "predicted"
    best = found["fastest"][0]
    measured = {"tensor", "pipeline", "data", "batch"}
    numbers = {name for name, value in best.items() if isinstance(value, float | int)}
    assert all(name.startswith("predicted") for name in numbers - measured)
    assert sum(best["predicted_times_s"].values()) == pytest.approx(best["predicted_step_s"])
    parts = best["predicted_peak"]["parts"]
    assert sum(part["bytes"] for part in parts) == best["predicted_peak"]["bytes"]
    assert all(part["formula"] and part["source"] for part in parts)


def test_the_fastest_that_fits_comes_first(plan):
    fit = plan.fitting
    assert fit[0] is plan.best
    assert all(one.footprint.bytes <= 80e9 for one in fit)
    order = [(not one.is_measured, float(f"{one.step_s:.2e}")) for one in fit]
    assert order == sorted(order)
    assert not any(one.fits for one in plan.tried[len(fit) :])
    kinds = plan.kinds()
    assert list(kinds) == [kind for kind in KINDS if kind in kinds]
    # 16 bytes a parameter of 8.03B are more than a card has
    assert not kinds["data parallel"].fits
    assert plan.fastest_too_large.step_s < plan.best.step_s
    # blocks are computed again only where the same layout does not fit without that
    assert len(list(layouts(plan.question))) >= len(plan.tried) > 1000


def test_times_are_whole_and_shares_of_a_step(plan):
    for one in (*plan.fitting[:20], *plan.kinds().values()):
        assert all(ns >= 0 for ns in one.times.values())
        assert 0 < one.mfu < 1
        assert one.layout.num_ranks == 64
        assert one.layout.tokens == plan.question.tokens == 64 * 8 * 8192


def test_the_deepspeed_file_is_read_back_as_the_layout(plan):
    for variant in set(Variant) - {Variant.HSDP}:  # DeepSpeed's file has no words for it
        some = (one for one in plan.fitting if one.layout.config.stage)
        layout = next(
            one.layout
            for one in some
            if one.layout.cut.tensor == one.layout.pipeline == 1
            and one.layout.recompute is Recompute.NONE
            and one.layout.replicas == 1
            and _is(one.layout.config, variant)
        )
        read = read_settings(deepspeed_config(layout), 64)
        assert read.sizes.micro == layout.batch
        for name in (
            *("stage", "dtype", "accumulate", "overlap", "secondary_partition"),
            *("quantize_weights", "quantize_gradients", "offload_optimizer", "offload_param"),
        ):
            assert getattr(read.engine, name) == getattr(layout.config, name), name


def _is(config: EngineConfig, variant: Variant) -> bool:
    found = {
        Variant.PLUS: config.quantizes or config.has_secondary,
        Variant.INFINITY: config.offload_param != "none",
        Variant.OFFLOAD: config.offloads_optimizer and config.offload_param == "none",
    }
    return found.get(variant, not any(found.values()))


def test_every_layout_is_written_or_says_why_not(plan):
    for one in plan.kinds().values():
        layout = one.layout
        calls, keys = torch_calls(layout), deepspeed_config(layout)
        assert calls or keys or layout.pipeline > 1
        if calls:
            compile(calls, "layout.py", "exec")
        line, reason = simulate_command(plan.question, layout)
        assert bool(line) != bool(reason)
        is_alone = layout.cut.tensor == layout.pipeline == layout.replicas == 1
        assert bool(line) == (is_alone and layout.recompute is not Recompute.OPERATORS)


def test_files(tmp_path):
    for name, begins in (("ds.json", "{"), ("layout.py", "import torch")):
        answer = command(
            "plan", *SMALL, "--stage", 3, "--only", "plain", "--write", tmp_path / name
        )
        assert (answer.code, answer.err) == (0, "")
        assert (tmp_path / name).read_text().startswith(begins)
    answer = command("plan", *SMALL, "--ds-config", tmp_path / "ds.json")
    assert (answer.code, answer.err) == (0, "")
    assert "predicted, as configured in the file" in answer.out


def test_the_command_of_a_plan_is_one_that_is_understood(plan):
    """What `zerosim simulate` would be asked is a configuration of the same engine."""
    line, _ = simulate_command(plan.question, plan.kinds()["ZeRO++"].layout)
    words = line.split()[2:]
    options = [word for word in words if word.startswith("--")]
    told = command("simulate", "--help").out
    for option in options:
        assert option[:24] in told, option


def test_with_fewer_tokens_a_gpu_the_gathers_show():
    question = ask("gpt-3", 1024, "dgx-a100", parse_tokens("2M"))
    best = make_plan(question, Fixed(stages=(3,), tensor=1, pipeline=1)).best
    points = scaled(best.beliefs, question, best.layout)
    assert [point.gpus for point in points] == sorted(point.gpus for point in points)
    hidden = [point.hides for point in points]
    assert hidden == sorted(hidden, reverse=True)
    assert points[0].hiding_tokens is None  # nothing is gathered on one
    for point in points[1:]:
        assert point.hides == (point.tokens_per_gpu >= point.hiding_tokens)


def test_what_was_not_fitted_is_said(tmp_path, plan):
    ideal = make_plan(ask("gpt-2", 8, "h100", 1 << 19, is_ideal=True)).best
    assert any("no constant of dgx-h100 was fitted" in note for note in notes_on(ideal))
    assert not any("no constant" in note for note in notes_on(plan.best))
    said = '{ value = %s, source = "fitted by zerosim calibrate runs" }'
    path = tmp_path / "ours.toml"
    path.write_text(
        f"""title = "ours"
[compute]
flops_per_second = {said % "1e12"}
fraction = {said % "[[1e9, 0.5], [1e10, 1.0]]"}
[memory]
bytes = {{ value = 80e9, source = "given" }}
bytes_per_second = {said % "1e12"}
fraction = {said % "[[0, 1.0]]"}
[node]
bytes_per_second = {said % "1e10"}
"""
    )
    assert load_machine(str(path)).fitted == 5
    one = make_plan(ask("gpt-2", 8, str(path), 2**19), Fixed(tensor=1, pipeline=1)).best
    (note,) = notes_on(one)
    assert note.startswith("Outside the calibrated range: matrix products of 77.3 GFLOP; the fit")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--model", "gpt-9"), ("gpt-9", "llama-3-8b")),
        (("--model", "mlp"), ("mlp", "expected one of")),
        (("--gpu", "h1000"), ("h1000", "dgx-h100")),
        (("--gpu", "h200"), ("h200", "is a single machine")),
        (("--gpus", 12), ("12", "multiple of 8")),
        (("--gpus", 0), ("gpus is 0",)),
        (("--gpus", 8, "--model", "zero-128b", "--stage", 0), ("fits in no layout", "80.0 GB")),
        (("--tokens-per-batch", "4X"), ("'4X'", "4M")),
        (("--tokens-per-batch", "1k"), ("1,000", "8,192")),
        (("--sequence", 9000), ("9000", "8,192")),
        (("--tensor-parallel", 3), ("3", "8 heads of keys")),
        (("--tensor-parallel", 16), ("16", "8")),
        (("--pipeline-parallel", 5), ("64", "5")),
        (("--pipeline-parallel", 64), ("64", "32 layers")),
        (("--batch", 7), ("512 sequences", "micro-batch 7")),
        (("--stage", 4), ("stage is 4",)),
        (("--recompute", "some"), ("'some'", "none, operators, full")),
        (("--only", "zero+"), ("'zero+'", "infinity")),
        (("--margin", 2), ("margin is 2",)),
        (("--top", 0), ("top is 0",)),
        (("--write", "plan.txt"), ("plan.txt", ".json")),
        (("--ds-config", "missing.json"), ("missing.json",)),
        (("--model", "missing/config.json"), ("missing/config.json", "No such file")),
        (("--context-parallel", 3), ("3", "64 data parallel ranks")),
        (("--expert-parallel", 4), ("4", "no experts")),
        (("--chunks", 50), ("50", "--pipeline-parallel")),
        (("--days", 3), ("days is 3", "--tokens")),
        (("--tokens", "1T", "--days", -1), ("days is -1",)),
        (("--checkpoint-time", 0), ("checkpoint-time is 0",)),
    ],
)
def test_wrong_input_is_one_line(given, words):
    assert_one_line(command("plan", *given), *words)


def test_a_whole_training_is_priced():
    answer = command("plan", *SMALL, "--tokens", "1B", "--price", 2, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = json.loads(answer.out)
    training, best = found["training"], found["fastest"][0]
    days = 1e9 / best["predicted_tokens_per_day"] / training["predicted_goodput"]
    assert training["predicted_days"] == pytest.approx(days)
    assert training["predicted_cost"] == pytest.approx(2 * 24 * days * found["gpus"])
    assert best["predicted_bound_s"] < best["predicted_step_s"]
    assert best["software"] == "torchtitan-2024"
    assert best["record"]["runs"] > 0
