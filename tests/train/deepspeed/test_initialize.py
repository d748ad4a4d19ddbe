"""`initialize` with DeepSpeed's arguments: a loop written for it trains as the engine does."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, StepLR
from torch.utils.data import IterableDataset, TensorDataset

import zerosim
from tests.ranks import run_ranks
from tests.train.engine.samples import Stack, build, freeze, inputs
from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.collectives import RankGroup
from zerosim.train.deepspeed import initialize as module
from zerosim.train.deepspeed.config import read_settings
from zerosim.train.deepspeed.initialize import open_engine
from zerosim.train.engine.loss_scaling import LossScaler

LOOP = Path(__file__).with_name("loop.py")
MICRO, ACCUMULATE, RANKS = 4, 2, 2
LR, DECAY, CLIP = 1e-2, 0.1, 0.5
WARMUP = {"warmup_max_lr": LR, "warmup_num_steps": 4, "warmup_type": "linear"}
CONFIG = {
    "train_batch_size": MICRO * ACCUMULATE * RANKS,
    "gradient_accumulation_steps": ACCUMULATE,
    "gradient_clipping": CLIP,
    "optimizer": {"type": "AdamW", "params": {"lr": LR, "weight_decay": DECAY}},
}
STAGES = (0, 1, 2, 3)
DTYPES = {0: ("fp32",), 1: ("bf16",), 2: ("fp32",), 3: ("fp32", "bf16")}
"""In which each stage trains; it reads its file alike in both."""
DISK = {"device": "nvme", "nvme_path": "a folder"}
FAMILY = {
    "optimizer on the host": (
        {"zero_optimization": {"stage": 2, "cpu_offload": True}},
        {"stage": 2, "offload_optimizer": "cpu"},
    ),
    "parameters on the host": (
        {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
        {"stage": 3, "offload_param": "cpu"},
    ),
    "all on a disk": (
        {"zero_optimization": {"stage": 3, "offload_optimizer": DISK, "offload_param": DISK}},
        {"stage": 3},
    ),
    "ZeRO++": (
        {
            "zero_optimization": {
                "stage": 3,
                "zero_hpz_partition_size": 2,
                "zero_quantized_weights": True,
                "zero_quantized_gradients": True,
            }
        },
        {
            "stage": 3,
            "secondary_partition": 2,
            "quantize_weights": True,
            "quantize_gradients": True,
            "bucket_elements": 500_000_000,  # which elements share a scale follows the buckets
        },
    ),
    "checkpoints": (
        {
            "zero_optimization": {"stage": 1},
            "activation_checkpointing": {
                "partition_activations": True,
                "cpu_checkpointing": True,
                "contiguous_memory_optimization": True,
            },
        },
        {"stage": 1},
    ),
}
"""What DeepSpeed's file says, and the engine's own configuration that trains to the same bits.

Where a thing is kept changes no bit, so the engine keeps it on the device.
"""


def the_loop():
    """The loop's module, with `import deepspeed` changed to `import zerosim as deepspeed`."""
    source = LOOP.read_text()
    assert source.count("import deepspeed") == 1
    module = SimpleNamespace()
    vars(module)["__name__"] = "deepspeed_loop"
    code = compile(
        source.replace("import deepspeed", "import zerosim as deepspeed"), str(LOOP), "exec"
    )
    exec(code, vars(module))  # noqa: S102 - our own file
    return module


def one_group(model):
    return model.parameters()


def engines_own_loop(loop, config):
    """The same training with an EngineConfig, and nothing of DeepSpeed's."""
    torch.manual_seed(0)
    engine = zerosim.initialize(loop.Net(), config)
    sampler = torch.utils.data.DistributedSampler(loop.Points())
    loader = torch.utils.data.DataLoader(loop.Points(), batch_size=MICRO, sampler=sampler)
    losses = []
    for x, y in loader:
        loss = nn.functional.cross_entropy(engine(x).float(), y)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    weights = engine.full_parameters()
    engine.close()
    return losses, weights


def _initialize_on_ranks():
    """Everything that two ranks train."""
    warnings.simplefilter("error")
    loop, found = the_loop(), {}
    groups = loop.parameter_groups

    def through_deepspeed(**sections):
        args = argparse.Namespace(local_rank=-1, deepspeed_config=CONFIG | sections)
        engine, losses, rates = loop.train(args, epochs=1)
        outcome = (losses, engine.full_parameters(), rates)
        norm = engine.get_global_grad_norm()
        engine.destroy()
        return outcome, norm, args.local_rank, len(engine.training_dataloader)

    for stage in STAGES:
        zero = {"stage": stage, "reduce_bucket_size": 100, "stage3_prefetch_bucket_size": 600}
        loop.parameter_groups = one_group
        for name in DTYPES[stage]:
            section = {"bf16": {"enabled": True}} if name == "bf16" else {}
            found["deepspeed", name, stage] = through_deepspeed(zero_optimization=zero, **section)
            own = EngineConfig(
                stage=stage,
                dtype=name,
                accumulate=ACCUMULATE,
                clip=CLIP,
                learning_rate=LR,
                weight_decay=DECAY,
            )
            found["own", name, stage] = engines_own_loop(loop, own)
        loop.parameter_groups = groups
        scheduler = {"type": "WarmupLR", "params": WARMUP}
        found["groups", stage] = through_deepspeed(zero_optimization=zero, scheduler=scheduler)
    loop.parameter_groups = one_group
    for name, (sections, named) in FAMILY.items():
        with tempfile.TemporaryDirectory() as folder:
            text = json.dumps(sections | {"bf16": {"enabled": True}})
            asked = json.loads(text.replace(DISK["nvme_path"], folder))
            found["deepspeed", name] = through_deepspeed(**asked)
        own = {"dtype": "bf16", "learning_rate": LR, "weight_decay": DECAY, "clip": CLIP}
        config = EngineConfig(**own, accumulate=ACCUMULATE, **named)
        found["own", name] = engines_own_loop(loop, config)
    return found


@pytest.fixture(scope="module")
def ranks():
    return run_ranks(_initialize_on_ranks, RANKS)


def _same(one, other) -> bool:
    (losses, weights, *_), (other_losses, other_weights, *_) = one, other
    return losses == other_losses and all(
        torch.equal(weight, other_weights[name]) for name, weight in weights.items()
    )


@pytest.mark.ranks
@pytest.mark.parametrize("stage", STAGES)
def test_a_loop_written_for_deepspeed_trains_as_the_engine_does(ranks, stage):
    for rank, found in enumerate(ranks):
        for dtype in DTYPES[stage]:
            (losses, weights, rates), norm, local_rank, batches = found["deepspeed", dtype, stage]
            assert _same((losses, weights), found["own", dtype, stage])
            assert len(losses) == batches == 96 // MICRO // RANKS
            assert rates == [LR] * (len(losses) // ACCUMULATE)
            assert losses[-1] < losses[0]
            assert norm > 0
            assert local_rank == rank


@pytest.mark.ranks
@pytest.mark.parametrize("name", FAMILY)
def test_the_whole_family_through_deepspeed(ranks, name):
    for found in ranks:
        (losses, weights, _), *_ = found["deepspeed", name]
        assert _same((losses, weights), found["own", name])


@pytest.mark.ranks
def test_groups_and_schedules_train_alike_in_all_stages(ranks):
    for found in ranks:
        first = found["groups", 0][0]
        for stage in STAGES:  # 2 and 3 add micro-steps after they were reduced, 0 and 1 before
            assert _same(found["groups", stage][0], found["groups", stage // 2 * 2][0])
        assert not _same(found["deepspeed", "fp32", 0][0], first)
        # DeepSpeed's scheduler sets warmup_min_lr before the first step, and again after it
        assert first[2] == [0.0, LR / 4, LR / 2, LR * 3 / 4, LR, LR]


# one rank


def opened(model=None, **named):
    named.setdefault("config", small())
    return zerosim.initialize(model=model or Stack(), **named)


def small(**more) -> dict:
    adam = {"type": "AdamW", "params": {"lr": LR}}
    return {"train_micro_batch_size_per_gpu": 4, "gradient_clipping": 0, "optimizer": adam} | more


def without_optimizer(**more) -> dict:
    config = small(**more)
    del config["optimizer"]
    return config


def batch(iteration=0):
    return inputs("Stack", 0, 1, iteration, 0)


class Even(nn.Module):
    """Its sizes fill the vectors of PyTorch's kernel, which rounds what is left otherwise."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = x + torch.tanh(block(x))
        return x.square().mean()


def even():
    torch.manual_seed(0)
    return Even()


def even_batch(iteration):
    generator = torch.Generator().manual_seed(iteration)
    return (torch.randn(4, 16, generator=generator),)


def train_plainly(model, optimizer, batches=even_batch, steps=4, scheduler=None):
    """PyTorch alone."""
    for step in range(steps):
        optimizer.zero_grad()
        model(*batches(step)).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
    return dict(model.named_parameters())


def train_through(engine, batches=even_batch, steps=4):
    for step in range(steps):
        engine.backward(engine(*batches(step)))
        engine.step()
    return engine.full_parameters()


def differences(weights, expected):
    return [name for name in expected if not torch.equal(weights[name], expected[name])]


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("decoupled", [True, False])
def test_adam_is_pytorchs_to_the_bit(stage, decoupled):
    params = {"lr": LR, "weight_decay": DECAY, "betas": [0.8, 0.9], "eps": 1e-6}
    config = small(
        optimizer={"type": "Adam", "params": {**params, "adam_w_mode": decoupled}},
        zero_optimization={"stage": stage},
    )
    engine, *_ = opened(even(), config=config)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    model = even()
    adam = kind(model.parameters(), **{**params, "betas": (0.8, 0.9)}, fused=True)
    assert not differences(train_through(engine), train_plainly(model, adam))


def split(model):
    """Two groups that change within every unit."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return [
        {"params": matrices, "lr": 3e-2},
        {"params": vectors, "weight_decay": 0.0, "betas": (0.5, 0.9)},
    ]


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("owner", ["zerosim", "client", "callable"])
def test_parameter_groups_are_updated_as_pytorch_does(stage, owner):
    def adam(parameters):
        return torch.optim.AdamW(parameters, lr=LR, weight_decay=DECAY, fused=True)

    model, config = even(), small(zero_optimization={"stage": stage})
    config["optimizer"]["params"]["weight_decay"] = DECAY
    given = {
        "zerosim": {"model_parameters": split(model)},
        "client": {"optimizer": adam(split(model))},
        "callable": {"optimizer": adam, "model_parameters": split(model)},
    }[owner]
    engine, optimizer, *_ = opened(model, config=config, **given)
    assert engine.get_lr() == [3e-2, LR]
    assert engine.get_mom() == [(0.9, 0.999), (0.5, 0.9)]
    assert [group["weight_decay"] for group in optimizer.param_groups] == [DECAY, 0.0]
    plain = even()
    expected = train_plainly(plain, adam(split(plain)))
    assert not differences(train_through(engine), expected)


def halving(step):
    return 0.5**step


@pytest.mark.parametrize("owner", ["scheduler", "callable"])
def test_a_scheduler_of_pytorchs_works_on_the_optimizer(owner):
    model = even()
    adam = torch.optim.AdamW(model.parameters(), lr=LR, fused=True)
    given = {
        "scheduler": lambda: {"optimizer": adam, "lr_scheduler": LambdaLR(adam, halving)},
        "callable": lambda: {"lr_scheduler": lambda optimizer: LambdaLR(optimizer, halving)},
    }[owner]()
    engine, optimizer, _, scheduler = opened(model, config=small(), **given)
    plain = even()
    plain_adam = torch.optim.AdamW(plain.parameters(), lr=LR, weight_decay=0.0, fused=True)
    if owner == "scheduler":
        plain_adam.param_groups[0]["weight_decay"] = 1e-2  # AdamW's own default
    expected = train_plainly(plain, plain_adam, scheduler=LambdaLR(plain_adam, halving))
    assert not differences(train_through(engine), expected)
    assert engine.lr_scheduler is scheduler
    assert engine.get_lr() == scheduler.get_last_lr() == [LR * halving(4)]
    assert optimizer.param_groups[0]["lr"] == LR * halving(4)


def test_deepspeeds_scheduler_by_hand():
    scheduler = {"type": "WarmupLR", "params": {"warmup_max_lr": 0.4, "warmup_num_steps": 4}}
    engine, _, _, made = opened(config=small(scheduler=scheduler))
    assert engine.get_lr() == made.get_lr() == [0.0]
    train_through(engine, batch, 2)
    assert made.state_dict() == {"last_batch_iteration": 1}
    assert engine.get_lr() == [pytest.approx(0.2)]
    made.load_state_dict({"last_batch_iteration": 7})
    made.step()
    assert engine.get_lr() == made.get_last_lr() == [0.4]
    made.step(1)
    assert engine.get_lr() == [pytest.approx(0.2)]


def test_a_schedule_goes_on_with_the_state_on_the_disk(tmp_path):
    """Overflows at first, so that steps and updates are two counts."""
    fp16 = {"enabled": True, "initial_scale_power": 30, "hysteresis": 1}
    warm = {"type": "WarmupLR", "params": {"warmup_max_lr": LR, "warmup_num_steps": 50}}

    def settings(folder):
        disk = {"device": "nvme", "nvme_path": str(tmp_path / folder)}
        zero = {"stage": 3, "offload_optimizer": disk}
        return read_settings(small(fp16=fp16, scheduler=warm, zero_optimization=zero), 1)

    def batches(first):
        return lambda step: even_batch(first + step)

    whole = open_engine(even(), settings("whole"))
    expected = train_through(whole, batches(0), 24)
    first = open_engine(even(), settings("parts"))
    train_through(first, batches(0), 18)
    first.close()
    second = open_engine(even(), settings("parts"), resume=True)
    assert second.global_steps == 18
    assert 0 < second.skipped_steps == first.skipped_steps < 18
    assert second.get_lr() == first.get_lr()
    assert not differences(train_through(second, batches(18), 6), expected)
    assert second.get_lr() == whole.get_lr()
    whole.close()
    second.close()


def test_a_step_that_overflowed_does_not_step_the_scheduler():
    fp16 = {"enabled": True, "initial_scale_power": 40, "hysteresis": 1}
    scheduler = {"type": "WarmupLR", "params": {"warmup_num_steps": 4}}
    config = small(fp16=fp16, scheduler=scheduler, zero_optimization={"stage": 1})
    engine, optimizer, _, made = opened(config=config)
    train_through(engine, batch, 3)
    assert (engine.skipped_steps, engine.global_steps) == (3, 3)
    assert not engine.was_step_applied()
    assert made.last_batch_iteration == -1
    assert optimizer.cur_scale == optimizer.loss_scale == engine.loss_scale == 2.0**37
    assert engine.fp16_enabled()


def test_an_engine_says_what_a_loop_asks():
    config = small(gradient_accumulation_steps=2, zero_optimization={"stage": 2})
    model = Stack()
    model.kind = "a stack"
    engine, optimizer, loader, scheduler = opened(model, config=config)
    assert isinstance(engine, zerosim.DeepSpeedEngine)
    assert isinstance(engine, zerosim.Engine)
    assert engine.optimizer is optimizer
    assert (loader, scheduler) == (None, None)
    assert (engine.global_rank, engine.local_rank, engine.world_size) == (0, 0, 1)
    assert (engine.dp_world_size, engine.device) == (1, torch.device("cpu"))
    assert (engine.train_batch_size(), engine.train_micro_batch_size_per_gpu()) == (8, 4)
    assert engine.gradient_accumulation_steps() == 2
    assert (engine.zero_optimization(), engine.zero_optimization_stage()) == (True, 2)
    assert not engine.fp16_enabled()
    assert not engine.bfloat16_enabled()
    assert engine.gradient_clipping() == 0.0
    assert engine.module is model
    assert dict(engine.named_parameters()).keys() == dict(model.named_parameters()).keys()
    assert len(list(engine.parameters())) == len(list(model.parameters()))
    assert not engine.eval().module.training
    assert engine.train().module.training
    assert engine.kind == "a stack"
    boundaries, applied = [], []
    for step in range(4):
        loss = engine.forward(*batch(step))
        assert torch.equal(engine.backward(loss), loss / 2)
        boundaries.append(engine.is_gradient_accumulation_boundary())
        engine.step()
        optimizer.zero_grad()
        engine.zero_grad()
        applied.append(engine.was_step_applied())
    assert boundaries == applied == [False, True, False, True]
    assert (engine.global_steps, engine.micro_steps, engine.global_samples) == (2, 4, 16)
    assert engine.get_global_grad_norm() is None  # it does not clip
    assert not hasattr(engine, "no_such_thing")
    assert "honoured: zero_optimization.stage = 2" in engine.config_report
    engine.destroy()


def test_a_loss_that_was_divided_already():
    config = small(gradient_accumulation_steps=2)
    whole, divided = (opened(build("Stack", 0), config=config)[0] for _ in range(2))
    for step in range(4):
        loss = divided(*batch(step)) / 2
        assert divided.backward(loss, scale_wrt_gas=False) is loss
        divided.step()
    train_through(whole, batch)
    assert not differences(divided.full_parameters(), whole.full_parameters())


def test_the_dataloader_has_micro_batches():
    data = TensorDataset(torch.arange(22.0))
    for drop_last, sizes in ((False, [4] * 5 + [2]), (True, [4] * 5)):
        config = small(dataloader_drop_last=drop_last)
        _, _, loader, _ = opened(config=config, training_data=data)
        batches = [values for (values,) in loader]
        assert [len(values) for values in batches] == sizes
        assert set(torch.cat(batches).tolist()) <= set(range(22))
    _, _, loader, _ = opened(config=small(), training_data=data, collate_fn=len)
    assert list(loader) == [4] * 5 + [2]


def test_what_is_ignored_is_said_once(caplog):
    with caplog.at_level(logging.WARNING, "zerosim"):
        opened(config=small(wall_clock_breakdown=True, disable_allgather=False))
    assert [record.getMessage() for record in caplog.records] == [
        "zerosim ignores wall_clock_breakdown: engine.config_report has the reasons"
    ]


@pytest.mark.parametrize(
    ("blocks", "less", "ahead"), [(0, 0, 0), (1, 1, 0), (1, 0, 1), (2, 1, 1), (2, 0, 2), (9, 0, 2)]
)
def test_as_many_units_are_gathered_ahead_as_fit(blocks, less, ahead):
    block = sum(p.numel() for p in Stack().blocks[0].parameters())  # of three alike
    zero = {"stage": 3, "stage3_prefetch_bucket_size": blocks * block - less}
    assert opened(config=small(zero_optimization=zero))[0].config.prefetch == ahead


def refusal(call) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


class Endless(IterableDataset):
    """Data without a length."""

    def __iter__(self):
        while True:
            yield torch.ones(6)


def unstepped():
    return torch.optim.AdamW([nn.Parameter(torch.ones(2))])


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ({"config": None}, "there is no configuration"),
        ({"args": SimpleNamespace(deepspeed_config="x.json")}, "expected one of them"),
        ({"model": 7}, "model is a int"),
        ({"mpu": object()}, "mpu is given, but"),
        ({"mesh_param": (1, 2)}, "mesh_param is given, but"),
        ({"config": without_optimizer()}, "there is no optimizer"),
        ({"optimizer": torch.optim.SGD([nn.Parameter(torch.ones(2))])}, "optimizer is a SGD"),
        ({"optimizer": lambda _: 7}, "optimizer is a int"),
        ({"optimizer": unstepped()}, "not a parameter of the model"),
        ({"model_parameters": []}, "empty parameter list"),
        ({"model_parameters": [nn.Parameter(torch.ones(2))]}, "not a parameter of the model"),
        ({"model_parameters": [7]}, "cannot be optimized"),
        ({"lr_scheduler": StepLR(unstepped(), 1)}, "works on another optimizer"),
        ({"lr_scheduler": lambda _: 7}, "lr_scheduler is a int"),
        ({"training_data": Endless()}, "training_data has no length"),
        ({"config": {"train_batch_size": "x"}}, 'train_batch_size is "x"'),
    ],
)
def test_arguments_that_cannot_work(named, words):
    assert words in refusal(lambda: opened(**{"model": Stack(), "config": small(), **named}))


def test_parameters_that_cannot_work():
    model = Stack()
    some = list(model.parameters())[1:]
    message = refusal(lambda: opened(model, model_parameters=some))
    assert "leaves blocks.0.up.weight out" in message
    model.blocks[0].up.weight.requires_grad_(False)
    opened(model, model_parameters=some)
    for group in ({"amsgrad": True}, {"bias_correction": False}, {"betas": (0.9, 1.0)}):
        groups = [{"params": list(model.parameters()), **group}]
        message = refusal(partial(opened, model, model_parameters=groups))
        assert next(iter(group)).rstrip("s") in message
    freeze(model)
    assert "no trainable parameter" in refusal(lambda: opened(model))
    stepped = Stack()
    adam = torch.optim.AdamW(stepped.parameters())
    train_plainly(stepped, adam, batch, 1)
    assert "has already stepped" in refusal(lambda: opened(stepped, optimizer=adam))


def test_what_the_engine_cannot_do_says_what_to_call():
    engine, optimizer, *_ = opened()
    for call, words in (
        (lambda: engine.save_checkpoint("folder"), "engine.full_parameters()"),
        (lambda: engine.load_checkpoint("folder"), "before"),
        (engine.state_dict, "engine.full_parameters()"),
        (engine.no_sync, "the stage decides"),
        (optimizer.step, "call engine.step()"),
        (optimizer.state_dict, "divided among the ranks"),
        (lambda: optimizer.load_state_dict({}), "divided among the ranks"),
        (lambda: engine.backward(engine(*batch()), retain_graph=True), "retain_graph is True"),
    ):
        assert words in refusal(call)


def test_what_zerosim_has_not_of_deepspeed_says_what_to_do():
    with pytest.raises(AttributeError, match="has no attribute 'zero': build the model whole"):
        _ = zerosim.zero
    assert not hasattr(zerosim, "init_inference")


def test_two_ways_to_call_are_not_mixed():
    model, config = Stack(), EngineConfig(dtype="fp32")
    assert type(zerosim.initialize(model, config)) is zerosim.Engine
    assert type(zerosim.initialize(model=model, config=config)) is zerosim.Engine
    assert type(zerosim.initialize(Stack())) is zerosim.Engine
    assert type(zerosim.initialize(model=Stack())) is zerosim.Engine
    for call in (
        lambda: zerosim.initialize(model, small()),
        lambda: zerosim.initialize(model, config=small()),
        lambda: zerosim.initialize(model, config, model_parameters=model.parameters()),
        lambda: zerosim.initialize(model=model, config=config, model_parameters=[]),
    ):
        assert "mixes two forms" in refusal(call)


def test_the_configuration_comes_from_the_command_line_too(tmp_path):
    path = tmp_path / "ds_config.json"
    path.write_text('{"train_batch_size": 4, "optimizer": {"type": "Adam"}, "steps_per_print": 1}')
    parser = zerosim.add_config_arguments(argparse.ArgumentParser())
    args = parser.parse_args(["--deepspeed", "--deepspeed_config", str(path)])
    assert args.deepspeed
    args.local_rank = -1
    engine, *_ = zerosim.initialize(args, Stack())
    assert (engine.train_batch_size(), args.local_rank) == (4, 0)
    assert zerosim.initialize(model=Stack(), config_params=str(path))[0].train_batch_size() == 4


def test_ranks_are_joined_where_a_launcher_said_so(monkeypatch):
    assert "start this with torchrun" in refusal(zerosim.init_distributed)
    with mock.patch.object(dist, "init_process_group") as join:
        for name, value in {"RANK": "0", "WORLD_SIZE": "1"}.items():
            monkeypatch.setenv(name, value)
        for name in ("MASTER_ADDR", "MASTER_PORT"):
            monkeypatch.setenv(name, "before")
            monkeypatch.delenv(name)
        opened(distributed_port=1234)
        assert join.call_count == 1
        assert sys.modules["os"].environ["MASTER_PORT"] == "1234"
        opened(dist_init_required=False)
        assert join.call_count == 1
        for name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
        zerosim.init_distributed("gloo", rank=0, world_size=1)
        assert join.call_args.kwargs == {"rank": 0, "world_size": 1}


def test_more_ranks_than_gpus(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    for home, name, value in (
        (dist, "is_initialized", lambda: True),
        (dist, "get_backend", lambda: "nccl"),
        (torch.cuda, "device_count", lambda: 1),
        (module, "world", RankGroup),
    ):
        monkeypatch.setattr(home, name, value)
    assert "local rank 1 has no GPU of its own: this host has 1" in refusal(opened)


def scaler(**changes):
    config = EngineConfig(dtype=DType.FP16, initial_loss_scale=64.0, **changes)
    return LossScaler(config)


def scales(loss_scaler, overflows):
    found = []
    for overflowed in overflows:
        loss_scaler.update(overflowed=bool(overflowed))
        found.append(loss_scaler.scale)
    return found


def test_a_scale_bears_overflows():
    bears = scaler(loss_scale_hysteresis=2, loss_scale_interval=3)
    assert scales(bears, [1, 0, 1, 1]) == [64, 64, 32, 16]
    assert scales(bears, [0, 0, 0, 1, 1]) == [16, 16, 32, 32, 16]  # doubling fills it up
    refilled = scaler(loss_scale_hysteresis=2, refill_hysteresis=True)
    assert scales(refilled, [1, 0, 1, 1]) == [64, 64, 64, 32]
    assert scales(scaler(least_loss_scale=32.0), [1, 1, 1]) == [32, 32, 32]
    static = scaler(dynamic_loss_scale=False, loss_scale_interval=1)
    assert scales(static, [1, 0, 0]) == [64, 64, 64]
    assert static.scales
