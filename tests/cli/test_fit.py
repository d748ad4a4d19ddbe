"""`zerosim fit`, and what a run says whose device has no room; what is refused."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.analysis.addresses import address_table
from zerosim.base.config import ModelName, Shape
from zerosim.record import load
from zerosim.schema.memory import MapMoment
from zerosim.train.models import build

SMALL = ("--model", "gpt-tiny", "--ranks", 2, "--width", 32, "--batch", 1, "--timeout", 100)
LIMIT_BYTES = 1_000_000


@pytest.mark.ranks
def test_it_finds_the_largest_model_by_training(tmp_path):
    answer = command(
        *("fit", *SMALL, "--stage", 0, "--device-bytes", LIMIT_BYTES),
        *("--nvme-path", tmp_path, "--json"),
    )
    assert answer.code == 0, answer
    plain = json.loads(answer.out)
    (found,) = plain["systems"]
    assert found["system"] == "data parallel"
    # what the laws count is less than what is in use
    assert found["largest"]["layers"] <= found["predicted_layers"] <= found["largest"]["layers"] + 1
    assert found["tries"][0]["layers"] == found["predicted_layers"]
    fitting = [one for one in found["tries"] if one["peak_bytes"] is not None]
    failed = min(
        (one for one in found["tries"] if one["peak_bytes"] is None), key=lambda one: one["layers"]
    )
    assert found["largest"] == max(fitting, key=lambda one: one["layers"])
    assert failed["layers"] == found["largest"]["layers"] + 1
    assert found["is_bounded"]
    for one in found["tries"]:
        model = build(ModelName.GPT_TINY, 0, shape=Shape(layers=one["layers"], width=32))
        assert one["parameters"] == sum(each.numel() for each in model.parameters())
    # parameters, gradients and the optimizer states, and not more than there is
    for one in fitting:
        assert 16 * one["parameters"] < one["peak_bytes"] <= LIMIT_BYTES
    assert failed["problem"].startswith("out of device memory: ")
    assert list(tmp_path.iterdir()) == [], "what the tries wrote is gone"


@pytest.mark.ranks
def test_a_run_that_does_not_fit_says_so_and_leaves_a_trace(tmp_path):
    options = (*SMALL, "--steps", 2, "--layers", 2, "--out", tmp_path, "--overwrite")
    answer = command("run", *options, "--stage", 0, "--device-bytes", "900kB")
    assert answer.code == 3, answer
    assert "Traceback" not in answer.err
    assert "failed: OutOfMemory: out of device memory: " in answer.err
    assert "of 900 kB is in use" in answer.err
    assert "try" in answer.err
    trace = load(tmp_path)
    for rank in trace.ranks:
        assert rank.complete
        assert rank.failure is not None
        assert rank.failure.message.startswith("OutOfMemory: ")
        (full,) = (one for one in rank.address_maps if one.moment is MapMoment.FULL)
        assert full.limit_bytes == 900_000
        assert address_table(rank)[-1].full == full
    # the same limit is enough where ranks divide what each of them held
    answer = command("run", *options, "--stage", 3, "--device-bytes", "900kB")
    assert answer.code == 0, answer
    for rank in load(tmp_path).ranks:
        peaks = [one for one in rank.address_maps if one.moment is MapMoment.PEAK]
        assert [one.iteration for one in peaks if one.iteration >= 0] == [0, 1]
        assert all(one.used_bytes <= 900_000 for one in rank.address_maps)
    answer = command("memory", tmp_path, "--rank", 1)
    assert "device of rank 1 (limit 900 kB) at its memory peak, in " in answer.out
    (drawn,) = re.findall(r"^  \[([a-zG.]{64})\]$", answer.out, re.MULTILINE)
    # parameters, both moments, master: what a rank of stage 3 cannot be without; and what is free
    assert set("pfmv.") <= set(drawn)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("fit", ("device-bytes is not given", "16MB")),
        ("fit --device-bytes much", ("device-bytes is 'much'", "48MB")),
        ("fit --device-bytes 1MB --stage 7", ("stage is 7", "0, 1, 2 or 3")),
        ("fit --device-bytes 1MB --model mlp", ("for a GPT", "gpt-tiny")),
        ("fit --device-bytes 1MB --width 30", ("width is 30", "4 heads")),
        ("fit --device-bytes 1MB --most-layers 0", ("most-layers is 0", "1 or more")),
        ("fit --device-bytes 1MB --stage 0 --offload-optimizer cpu", ("offload-optimizer",)),
    ],
)
def test_what_is_refused(args, words):
    assert_one_line(command(*args.split()), *words)
