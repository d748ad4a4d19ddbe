"""DeepSpeed's configuration: each key as the table says, each mistake in one line."""

from __future__ import annotations

import base64
import json
import math
from copy import deepcopy
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zerosim.base.config import DType, EngineConfig, Offload, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config import KEYS, Settings, Treatment, read_document, read_settings
from zerosim.train.deepspeed.config.keys import AUTO, KeyKind
from zerosim.train.deepspeed.config.pages import markdown
from zerosim.train.deepspeed.config.schedule import SCHEDULES, make_schedule

ROOT = Path(__file__).parents[3]
FULL = {
    "train_batch_size": 32,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.5,
    "steps_per_print": 10,
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-7, "weight_decay": 0.1},
    },
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": {"warmup_min_lr": 0, "warmup_num_steps": 100, "total_num_steps": 1000},
    },
    "fp16": {"enabled": True, "initial_scale_power": 12, "hysteresis": 3, "min_loss_scale": 2},
    "zero_optimization": {
        "stage": 2,
        "overlap_comm": True,
        "reduce_bucket_size": 5e7,
        "allgather_bucket_size": "auto",
        "contiguous_gradients": True,
        "offload_optimizer": {"device": "none"},
    },
    "tensorboard": {"enabled": True, "output_path": "logs"},
}
"""What people have, with a bit of everything."""


def read(document, num_ranks=4) -> Settings:
    return read_settings(document, num_ranks)


def smallest(**more) -> dict:
    return {"train_micro_batch_size_per_gpu": 1, **more}


def nested(path: str, value) -> dict:
    """A document with one key, and what it cannot be without."""
    document = smallest()
    if path.startswith("optimizer."):
        document["optimizer"] = {"type": "Adam"}
    if path.startswith("scheduler."):
        document["scheduler"] = {"type": "WarmupLR"}
    section = document
    *parents, name = path.split(".")
    for parent in parents:
        section = section.setdefault(parent, {})
    section[name] = value
    return document


def refusal(document, num_ranks=4) -> str:
    with pytest.raises(ConfigError) as caught:
        read(document, num_ranks)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_each_option_with_a_key_is_one_that_is_honoured():
    for one in (*EngineConfig.options(), *RunConfig.options()):
        for path in filter(None, one.option.deepspeed.split(" and ")):
            assert KEYS[path].treatment is Treatment.HONOURED, one.name


def test_the_page_is_the_table():
    assert (ROOT / "docs" / "deepspeed-config.md").read_text() == markdown()


def test_a_whole_configuration():
    found = read(FULL)
    config = found.engine
    assert (config.stage, config.dtype, config.overlap) == (2, DType.FP16, True)
    assert (config.accumulate, config.bucket_elements, config.clip) == (2, 50_000_000, 0.5)
    assert (config.learning_rate, config.beta1, config.beta2) == (3e-4, 0.9, 0.95)
    assert (config.epsilon, config.weight_decay, config.decoupled_weight_decay) == (1e-7, 0.1, True)
    assert (config.initial_loss_scale, config.loss_scale_hysteresis) == (4096.0, 3)
    assert (config.least_loss_scale, config.dynamic_loss_scale) == (2.0, True)
    assert (found.sizes.train, found.sizes.micro, found.sizes.accumulate) == (32, 4, 2)
    assert found.has_optimizer
    assert found.schedule == SCHEDULES["WarmupDecayLR"](warmup_num_steps=100, total_num_steps=1000)
    ignored = {line.path for line in found.lines if line.treatment is Treatment.IGNORED}
    assert ignored == {
        "steps_per_print",
        "tensorboard",
        "zero_optimization.allgather_bucket_size",
        "zero_optimization.contiguous_gradients",
    }
    assert found.ignored() == ["steps_per_print", "tensorboard"]  # the others are its defaults
    report = found.report().splitlines()
    assert len(report) == len(found.lines) + len(found.defaults)
    assert all(any(line.path in row for row in report) for line in found.lines)
    assert "Hugging Face" in next(row for row in report if "allgather_bucket_size" in row)


def test_what_is_left_out_is_deepspeeds_default():
    found = read(smallest()).engine
    assert (found.stage, found.dtype, found.clip, found.overlap) == (0, DType.FP32, 1.0, False)
    assert read(smallest(gradient_clipping=0)).engine.clip is None
    assert read(nested("zero_optimization.stage", 3)).engine.overlap is True
    assert not read(smallest()).has_optimizer


def _without_lines(found: Settings) -> tuple:
    return tuple(
        getattr(found, field.name)
        for field in fields(found)
        if field.name not in ("lines", "defaults")
    )


@pytest.mark.parametrize(
    "path", [path for path, key in KEYS.items() if key.kind != KeyKind.SECTION]
)
def test_a_default_given_is_a_default_left_out(path):
    key = KEYS[path]
    if key.default is None:
        return
    given, left_out = read(nested(path, key.default)), read(_bare(path))
    assert _without_lines(given) == _without_lines(left_out)
    assert [line.path for line in given.lines if line.path == path] == [path]
    if key.auto:
        assert _without_lines(read(nested(path, AUTO))) == _without_lines(left_out)
    else:
        assert "auto" in refusal(nested(path, AUTO))


def _bare(path: str) -> dict:
    document = nested(path, "")
    *parents, name = path.split(".")
    section = document
    for parent in parents:
        section = section[parent]
    del section[name]
    return document


@pytest.mark.parametrize(
    "path", [path for path, key in KEYS.items() if key.treatment is Treatment.REFUSED]
)
def test_what_is_refused_is_refused_unless_it_asks_for_nothing(path):
    key = KEYS[path]
    asking = {key.switch: "cpu"} if key.switch else 7
    assert f"{path} is " in refusal(nested(path, asking))
    assert key.sentence in refusal(nested(path, asking))
    for value in key.harmless:
        found = read(nested(path, {key.switch: value} if key.switch else value))
        assert _without_lines(found) == _without_lines(read(_bare(path)))


@pytest.mark.parametrize(
    "path", [path for path, key in KEYS.items() if key.treatment is not Treatment.REFUSED]
)
def test_a_value_of_another_kind_is_refused(path):
    wrong = {
        KeyKind.FLAG: 1,
        KeyKind.INTEGER: 1.5,
        KeyKind.NUMBER: True,
        KeyKind.TEXT: 3,
        KeyKind.SECTION: [1],
    }
    kind = KEYS[path].kind
    if kind is not KeyKind.ANY:
        message = refusal(nested(path, wrong[kind]))
        assert f"{path} is " in message
        assert str(kind) in message


@given(
    st.integers(1, 8),
    st.none() | st.integers(1, 64),
    st.none() | st.integers(1, 8),
    st.none() | st.integers(1, 8),
)
def test_batch_sizes_are_those_of_deepspeed(num_ranks, train, micro, accumulate):
    document = {
        "train_batch_size": train,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_accumulation_steps": accumulate,
    }
    expected = _deepspeeds_batch_sizes(num_ranks, train, micro, accumulate)
    if expected is None:
        message = refusal(document, num_ranks)
        for value in (train, micro, accumulate) if train is not None else ():
            assert value is None or str(value) in message
        return
    found = read(document, num_ranks).sizes
    assert (found.train, found.micro, found.accumulate) == expected


def _deepspeeds_batch_sizes(num_ranks, train, micro, accumulate):
    """`DeepSpeedConfig._set_batch_related_parameters`, and its assertion."""
    if train is not None and micro is not None:
        accumulate = accumulate or train // micro // num_ranks
    elif train is not None:
        accumulate = accumulate or 1
        micro = train // num_ranks // accumulate
    elif micro is not None:
        accumulate = accumulate or 1
        train = micro * accumulate * num_ranks
    else:
        return None
    works = micro > 0 and accumulate > 0 and train == micro * accumulate * num_ranks
    return (train, micro, accumulate) if works else None


@pytest.mark.parametrize(
    ("params", "decoupled", "weight_decay"),
    [
        ({"type": "Adam"}, True, 0.0),
        ({"type": "adamw"}, True, 0.0),
        ({"type": "Adam", "params": {"adam_w_mode": False, "weight_decay": 0.1}}, False, 0.1),
        ({"type": "AdamW", "params": {"adam_w_mode": False}}, True, 0.0),
        ({"type": "AdamW", "params": {"torch_adam": True}}, True, 0.01),
        ({"type": "Adam", "params": {"torch_adam": True, "adam_w_mode": False}}, False, 0.0),
        ({"type": "AdamW", "params": {"torch_adam": True, "weight_decay": 0}}, True, 0.0),
    ],
)
def test_which_adam(params, decoupled, weight_decay):
    found = read(smallest(optimizer=params)).engine
    assert (found.decoupled_weight_decay, found.weight_decay) == (decoupled, weight_decay)


def test_loss_scales():
    def scale(stage=1, **keys):
        return read(smallest(fp16={"enabled": True, **keys}, zero_optimization={"stage": stage}))

    assert scale().engine.loss_scale_hysteresis == KEYS["fp16.hysteresis"].default
    assert scale(stage=0).engine.loss_scale_hysteresis == 1
    static = scale(loss_scale=128).engine
    assert (static.initial_loss_scale, static.dynamic_loss_scale) == (128.0, False)
    off = read(smallest(fp16={"enabled": False, "loss_scale": 128}))
    assert off.engine == read(smallest()).engine


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"zero_optimisation": {}}, ("'zero_optimisation'", "nearest", "zero_optimization")),
        (nested("zero_optimization.stag", 1), ("'stag' in zero_optimization", "stage")),
        ({"stage": 2}, ("'stage'", "expected it in zero_optimization")),
        (nested("zero_optimization.gradient_clipping", 1), ("expected it at the top",)),
        (nested("optimizer.params.momentum", 1), ("'momentum' in optimizer.params", "nearest")),
        ({}, ("neither train_batch_size nor train_micro_batch_size_per_gpu",)),
        ({"gradient_accumulation_steps": 2}, ("neither", "give one of them")),
        ({"train_batch_size": 0}, ("train_batch_size is 0", "1 or more")),
        (smallest(optimizer={"type": "Lamb"}), ('"Lamb"', "Adam and AdamW")),
        (smallest(optimizer={"params": {"lr": 1}}), ("optimizer has no type",)),
        (nested("optimizer.params.betas", [0.9]), ("betas is [0.9]", "two numbers")),
        (nested("optimizer.params.betas", [0.9, 1]), ("betas is [0.9, 1]", "below 1")),
        (nested("optimizer.params.lr", -1), ("lr is -1", "0 or more")),
        (nested("optimizer.params.max_grad_norm", 1), ("max_grad_norm", "gradient_clipping")),
        (smallest(scheduler={"type": "OneCycle"}), ('"OneCycle"', "WarmupLR", "lr_scheduler")),
        (smallest(scheduler={"type": "WarmupDecayLR"}), ("total_num_steps",)),
        (smallest(scheduler={"params": {}}), ("scheduler has no type",)),
        (nested("scheduler.params.warmup_max", 1), ("'warmup_max'", "warmup_max_lr")),
        (nested("scheduler.params.warmup_max_lr", [1e-3]), ("warmup_max_lr is [0.001]", "number")),
        (nested("scheduler.params.warmup_num_steps", 0), ("warmup_num_steps is 0", "1 or more")),
        (nested("scheduler.params.warmup_type", "cosine"), ('"cosine"', "log, linear")),
        (smallest(fp16={"enabled": True}, bf16={"enabled": True}), ("both true",)),
        (smallest(bf16={}, bfloat16={}), ("bfloat16 and bf16 are the same key",)),
        (smallest(communication_data_type="fp16"), ("compute dtype is fp32",)),
        (smallest(communication_data_type="int8"), ('"int8"', "fp32")),
        (smallest(gradient_clipping=None), ("gradient_clipping is null",)),
        (smallest(gradient_clipping="1.0"), ('"1.0"', "a number")),
        (nested("zero_optimization.stage", 4), ("stage is 4", "at most 3")),
        (nested("zero_optimization.reduce_bucket_size", 0), ("1 or more",)),
        (smallest(zero_optimization="3"), ("section in braces",)),
        (smallest(train_batch_size=10**400), ("whole number",)),
        (smallest(gradient_clipping=10**400), ("a number",)),
        (smallest(gradient_clipping=math.nan), ("'gradient_clipping' is nan", "finite")),
        (smallest(aio={"a": {"b": math.inf}}), ("is inf", "finite")),
        (smallest(aio={1: 2}), ("1 is not text",)),
        (smallest(aio=object()), ("expected a JSON value",)),
        (7, ("config is 7", "a dictionary")),
        ("no_such_file.json", ("no such file", "base64")),
        ("/", ("is not a file",)),
        ('{"a": 1, "a": 2}', ("'a'", "twice")),
        ('{"aio": {"b": 1, "b": 1}}', ("'b'", "twice")),
        ('{"a": NaN}', ("NaN", "expected a number")),
        ('{"a": 1,}', ("line 1, column", "JSON")),
        ('{\n"a": 1 // why\n}', ("line 2, column", "without comments")),
        ('{"a": ' + "9" * 5000 + "}", ("cannot be read as JSON",)),
        ('{"a":' * 10_000, ("cannot be read as JSON",)),
        ('{"aio":' * 30 + "1" + "}" * 30, ("sections deep",)),
    ],
)  # fmt: skip
def test_mistakes(document, words):
    message = (
        refusal(document).replace('"', "'") if isinstance(document, str) else refusal(document)
    )
    for word in words:
        assert word in message or word.replace("'", '"') in message, (word, message)


def test_all_that_deepspeed_takes_is_the_same(tmp_path):
    text = json.dumps(FULL)
    path = tmp_path / "ds_config.json"
    path.write_text("\ufeff" + text)
    encoded = base64.urlsafe_b64encode(text.encode()).decode()
    before = deepcopy(FULL)
    for source in (FULL, path, str(path), text, encoded):
        assert read_document(source) == FULL
        assert read(source) == read(FULL)
    assert before == FULL


def test_names_of_files_are_shown_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = Path("two\nlines.json")
    assert "two\\nlines.json does not exist" in refusal(path).replace('"', "")
    path.write_text("[")
    assert "two\\nlines.json, line 1" in refusal(path).replace('"', "")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00{", b"x" * 100_000, b"[1]", b""])
def test_files_that_hold_something_else(tmp_path, content):
    path = tmp_path / "ds_config.json"
    path.write_bytes(content)
    assert str(path) in refusal(path)


def test_older_names_are_read():
    old = {"bfloat16": {"enabled": True}, "zero_optimization": {"prefetch_bucket_size": 7}}
    found = read(smallest(**old))
    assert (found.engine.dtype, found.prefetch_elements) == (DType.BF16, 7)
    assert read(smallest(zero_optimization=True)).engine.stage == 1


def test_schedules_follow_their_formulas():
    warm = make_schedule("WarmupLR", {"warmup_max_lr": 0.4, "warmup_num_steps": 8})
    assert [warm.rate(step, 1.0) for step in (-1, 0, 8, 99)] == [0.0, 0.0, 0.4, 0.4]
    for step in range(8):
        expected = 0.4 * math.log(step + 1) / math.log(8)
        assert warm.rate(step, 1.0) == pytest.approx(expected, rel=1e-12)
    assert make_schedule("WarmupLR", {}).rate(5000, 0.3) == 0.3  # up to the optimizer's own
    lines = {"warmup_num_steps": 4, "warmup_type": "linear", "total_num_steps": 12}
    decay = make_schedule("WarmupDecayLR", {**lines, "warmup_max_lr": 0.8})
    assert [decay.rate(step, 1.0) for step in (2, 4, 8, 12, 20)] == [0.4, 0.8, 0.4, 0.0, 0.0]
    cosine = make_schedule("WarmupCosineLR", lines)
    assert cosine.rate(-1, 1.0) == 0.0
    assert cosine.rate(2, 0.6) == 0.3
    assert cosine.rate(7, 1.0) == pytest.approx(0.5, abs=1e-4)
    assert cosine.rate(11, 1.0) == cosine.rate(50, 1.0) == pytest.approx(1e-4)
    test = {"lr_range_test_min_lr": 0.1, "lr_range_test_step_size": 3}
    stairs = make_schedule("LRRangeTest", {**test, "lr_range_test_staircase": True})
    slope = make_schedule("LRRangeTest", test)
    assert [stairs.rate(step, 1.0) for step in range(-1, 6)] == [0.1] * 3 + [0.2] * 3 + [0.1 * 3]
    assert slope.rate(2, 1.0) == stairs.rate(2, 1.0) != slope.rate(1, 1.0)


def zero(stage=3, **keys) -> dict:
    return smallest(zero_optimization={"stage": stage, **keys})


def changed(document, num_ranks=4) -> dict:
    """What of the engine's configuration this document changes, by name."""
    stage = document.get("zero_optimization", {}).get("stage", 0)
    plain = read(zero(stage), num_ranks).engine.to_plain()
    found = read(document, num_ranks).engine.to_plain()
    return {name: value for name, value in found.items() if value != plain[name]}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (zero(1, offload_optimizer={"device": "cpu", "pin_memory": True}),
         {"offload_optimizer": "cpu"}),
        (zero(1, offload_optimizer={"device": "none", "nvme_path": "/d", "buffer_count": 1}), {}),
        (zero(1, offload_optimizer=None, offload_param={"device": "none"}), {}),
        (zero(2, cpu_offload=True, cpu_offload_use_pin_memory=True), {"offload_optimizer": "cpu"}),
        (zero(2, cpu_offload=False), {}),
        (zero(3, cpu_offload_param=True), {"offload_param": "cpu"}),
        (zero(3, offload_param={"device": "cpu"}, cpu_offload=True),
         {"offload_param": "cpu", "offload_optimizer": "cpu"}),
        (zero(1, offload_optimizer={"device": "nvme", "nvme_path": "/d", "buffer_count": 9}),
         {"offload_optimizer": "nvme", "nvme_path": "/d", "disk_buffers": 9}),
        (zero(3, offload_param={"device": "nvme", "nvme_path": "/d", "buffer_count": "auto"}),
         {"offload_param": "nvme", "nvme_path": "/d", "disk_buffers": 5}),
        (zero(3, offload_param={"device": "nvme", "nvme_path": "/d", "max_in_cpu": 1e9},
              offload_optimizer={"device": "nvme", "nvme_path": "/d", "pipeline_read": True}),
         {"offload_param": "nvme", "offload_optimizer": "nvme", "nvme_path": "/d",
          "disk_buffers": 9}),
        (zero(3, offload_param={"device": "cpu", "nvme_path": "/e"},
              offload_optimizer={"device": "nvme", "nvme_path": "/d"}),
         {"offload_param": "cpu", "offload_optimizer": "nvme", "nvme_path": "/d"}),
        (zero(3, zero_hpz_partition_size=2, zero_quantized_weights=True,
              zero_quantized_gradients=True),
         {"secondary_partition": 2, "quantize_weights": True, "quantize_gradients": True}),
        (zero(3, zero_hpz_partition_size=8), {"secondary_partition": 4}),
        (zero(3, zero_hpz_partition_size=0), {}),
        (zero(1, zero_hpz_partition_size=1, zero_quantized_weights=False), {}),
        (smallest(activation_checkpointing={"number_checkpoints": 4, "profile": True}), {}),
        (smallest(activation_checkpointing={"partition_activations": True}),
         {"checkpoint_activations": True, "partition_activations": True}),
        (smallest(activation_checkpointing={"cpu_checkpointing": True}),
         {"checkpoint_activations": True, "cpu_checkpointing": True}),
        (smallest(activation_checkpointing={"contiguous_memory_optimization": True}),
         {"checkpoint_activations": True, "contiguous_memory": True}),
    ],
)  # fmt: skip
def test_the_whole_family(document, expected):
    assert changed(document) == expected


def test_one_rank_has_no_second_copy():
    assert read(zero(zero_hpz_partition_size=8), 1).engine.secondary_partition == 1


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (zero(0, offload_optimizer={"device": "cpu"}),
         ("offload_optimizer.device is 'cpu' in stage 0", "a stage of 1 or more")),
        (zero(0, cpu_offload=True), ("zero_optimization.cpu_offload is true in stage 0",)),
        (zero(2, offload_param={"device": "cpu"}), ("offload_param.device", "expected stage 3")),
        (zero(2, zero_hpz_partition_size=2), ("zero_hpz_partition_size is 2 in stage 2",)),
        (zero(1, zero_quantized_weights=True), ("zero_quantized_weights is true in stage 1",)),
        (zero(0, zero_quantized_gradients=True), ("zero_quantized_gradients is true in stage 0",)),
        (zero(3, zero_hpz_partition_size=3), ("is 3: expected a divisor of the 4 ranks",)),
        (zero(1, cpu_offload=True, offload_optimizer={"device": "cpu"}),
         ("the same key: keep zero_optimization.offload_optimizer",)),
        (zero(1, offload_optimizer={"device": "disk"}), ("'disk'", "none, cpu, nvme")),
        (zero(1, offload_optimizer={"devices": "cpu"}), ("'devices' in", "nearest", "device")),
        (zero(1, offload_optimizer="cpu"), ("a section in braces",)),
        (zero(1, offload_optimizer={"device": "nvme"}),
         ("offload_optimizer.nvme_path is not given",)),
        (zero(3, offload_param={"device": "nvme", "nvme_path": ""}),
         ("offload_param.nvme_path is not given",)),
        (zero(3, offload_param={"device": "nvme", "nvme_path": "/d"},
              offload_optimizer={"device": "nvme", "nvme_path": "/e"}),
         ("nvme_path '/e'", "nvme_path '/d' differ", "in one folder")),
        (zero(1, offload_optimizer={"device": "nvme", "nvme_path": "/d", "buffer_count": 1}),
         ("offload_optimizer.buffer_count is 1: expected 2",)),
        (zero(1, offload_optimizer={"ratio": 1.5}), ("ratio is 1.5", "at most 1")),
        ({**zero(1, offload_optimizer={"device": "cpu"}),
          "optimizer": {"type": "Adam", "params": {"fp32_optimizer_states": False}}},
         ("fp32_optimizer_states is false", "refused")),
        (zero(1, zero_quantized_nontrainable_weights=True), ("not stored parameters",)),
        (zero(1, zenflow={"topk_ratio": 0.1}), ("zenflow is", "refused")),
        (smallest(activation_checkpointing={"partitioned_activations": True}),
         ("nearest", "partition_activations")),
        (smallest(activation_checkpointing={"profile": "auto"}), ("'auto'", "true or false")),
    ],
)  # fmt: skip
def test_mistakes_in_the_family(document, words):
    message = refusal(document).replace('"', "'")
    for word in words:
        assert word in message, (word, message)


def test_every_kind_of_offload_is_a_device_of_deepspeeds():
    assert KEYS["zero_optimization.offload_param.device"].choices == tuple(Offload)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(AUTO),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
PATHS = sorted(KEYS)


@given(VALUES | st.dictionaries(st.sampled_from(PATHS) | st.text(), VALUES, max_size=4))
@example("{")
@example("AAAA")
@example("\0")
@example("a" * 5000)
def test_anything_is_a_configuration_or_one_line(document):
    _understood_or_one_line(document)


@given(st.text() | VALUES.map(lambda value: json.dumps({"train_batch_size": value})))
def test_any_text_is_a_configuration_or_one_line(text):
    _understood_or_one_line("{" + text)
    _understood_or_one_line(base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode())


@given(st.data())
def test_a_changed_configuration_is_one_still_or_one_line(data):
    document = deepcopy(FULL)
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PATHS))
        *parents, name = path.split(".")
        section = document
        for parent in parents:
            if not isinstance(section.get(parent), dict):
                section[parent] = {}
            section = section[parent]
        if data.draw(st.booleans()):
            section[name] = data.draw(VALUES | st.sampled_from([0, 1, 2, 3, 5e8, "fp16", "AdamW"]))
        else:
            section.pop(name, None)
    _understood_or_one_line(document)


def _understood_or_one_line(document) -> None:
    try:
        found = read(document, 2)
    except ConfigError as error:
        _require_short(str(error))
        return
    sizes = found.sizes
    assert sizes.train == sizes.micro * sizes.accumulate * 2
    assert found.engine.from_plain(found.engine.to_plain()) == found.engine
    assert found.report()


def _require_short(message: str) -> None:
    assert len(message.splitlines()) == 1, message
    assert len(message) < 700
