"""What DeepSpeed would send and keep by its configuration, held against what it really did."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cli.command import command
from tests.train.deepspeed.table import CASES, MODEL
from tests.train.deepspeed.training import BF16, KEEPS_NOTHING, OFFLOAD, Net, Tied, zero
from zerosim.base.errors import ConfigError, UnplannedError
from zerosim.systems.deepspeed.explanation import explain
from zerosim.train.models import build

PAGE = Path(__file__).parents[3] / "docs" / "deepspeed.md"
TRACED = dict(re.findall(r"^\| (stage .*?) \|.*?\*\*(.*?)\*\*", PAGE.read_text(), re.MULTILINE))


@pytest.fixture(scope="module")
def model():
    with torch.device("meta"):
        return build(MODEL, 0)


@pytest.mark.parametrize("name", CASES)
def test_it_is_what_a_trace_of_deepspeed_says(name, model):
    found = explain(CASES[name], model, ranks=4)
    assert f"{float(found.sends):.3f}" == TRACED[name]
    changed = json.loads(json.dumps(CASES[name]))
    for key, value in found.to_get_there.items():
        section = changed
        *parents, last = key.split(".")
        for parent in parents:
            section = section[parent]
        section[last] = value
    there = explain(changed, model, ranks=4)
    assert f"{float(there.sends):.3f}" == f"{float(there.law):.3f}"
    assert not there.to_get_there


def test_the_page_shows_it():
    text = PAGE.read_text()
    example = re.search(r"( {4}import zerosim\.deepspeed\n.*?)\n\n<!-- explained", text, re.DOTALL)[
        1
    ]
    code = "\n".join(line.removeprefix("    ") for line in example.splitlines())
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    shown = re.search(r"<!-- explained -->\n```\n(.*?)```", text, re.DOTALL)[1]
    assert (said.stdout, said.stderr) == (shown, "")


def test_padding_and_ties_are_counted():
    net = Net()  # no size of it divides by 4
    whole = explain(zero(3, **KEEPS_NOTHING), net, ranks=4)
    padding = {one.words: one.bytes for one in whole.plan.merged_causes()}["padding in each pass"]
    assert padding > 0
    assert whole.sends == 3 + padding / whole.plan.scale.a_pass
    assert whole.to_get_there == {}
    tied = explain(zero(3, **KEEPS_NOTHING), Tied(), ranks=4)
    embedding = net.embedding.weight.numel()
    assert tied.plan.num_parameters == whole.plan.num_parameters - embedding
    again = next(one for one in tied.plan.merged_causes() if "used again" in one.cause)
    assert again.bytes == 2 * embedding * 4 * tied.plan.scale.share


def test_states_are_those_that_a_rank_keeps(model):
    size = explain(zero(0), model, ranks=4).plan.num_parameters
    kept = {
        (stage, bool(dtype)): sum(
            part.bytes for part in explain(zero(stage, dtype=dtype), model, ranks=4).states.parts
        )
        for stage in (1, 2, 3)
        for dtype in ({}, BF16)
    }
    assert size % 8 == 0  # nothing is padded in stages 1 and 2
    assert kept[1, False] == kept[2, False] == 4 * size + 8 * size // 4
    assert kept[1, True] == kept[2, True] == 2 * size + 12 * size // 4
    assert kept[3, True] == 14 * size // 4
    offloaded = explain(zero(2, **OFFLOAD), model, ranks=4)
    assert offloaded.states is None
    assert "its memory is not predicted" in str(offloaded)


@pytest.mark.parametrize(
    ("config", "options", "words"),
    [
        (zero(3), {}, "stage 3 keeps small parameters.*explain\\(config, model\\)"),
        (zero(1), {"ranks": 1}, "ranks is 1: expected 2 or more"),
        (zero(1, stag=1), {}, "stag"),
        (zero(2) | {"train_batch_size": 7}, {}, "train_batch_size is 7"),
    ],
)
def test_what_cannot_be_explained_is_one_line(config, options, words):
    with pytest.raises(ConfigError, match=words) as raised:
        explain(config, **options)
    assert "\n" not in str(raised.value)


def test_what_has_no_plan_says_so(model):
    with pytest.raises(UnplannedError, match="there is no plan"):
        explain(zero(3, zero_quantized_weights=True), model)


def test_the_dtype_of_sums_decides_who_carries_stage_1_out(model):
    sums = {"data_types": {"grad_accum_dtype": "fp32"}}
    (first, *_), (again, *_) = (
        [call for call in explain(config, model).plan.calls if "reduce" in call.purpose]
        for config in (zero(1, dtype=BF16), zero(1, dtype=BF16) | sums)
    )
    assert (first.is_cut, again.is_cut) == (True, False)  # buckets, or a whole parameter group
    assert explain(zero(0, dtype=BF16), model).sends == 2
    with pytest.raises(ConfigError, match="grad_accum_dtype is float32: expected bfloat16"):
        explain(zero(0, dtype=BF16) | sums, model)


def test_the_command_says_it_of_a_built_in_model(tmp_path):
    file = tmp_path / "ds_config.json"
    file.write_text(json.dumps(CASES["stage 2, g = 2"]))
    options = ("--deepspeed-config", file, "--explain")
    answer = command("run", *options, "--model", "mlp")
    assert answer.code == 0, answer
    assert "sends 2g + 1 = 5Ψ a step; the law of ZeRO-2 gives g + 1 = 3Ψ" in answer.out
    plain = json.loads(command("run", *options, "--json").out)["deepspeed"]
    assert (plain["sends_psi"], plain["law_psi"], plain["ranks"]) == (5, 3, 4)
    assert plain["to_get_there"] == {"zero_optimization.use_multi_rank_bucket_allreduce": False}
    alone = command("run", *options, "--ranks", 1)
    assert alone.code == 0
    assert "unknown: ranks is 1" in alone.out
