"""ZeRO-Offload and ZeRO-Infinity train as the stages do without them, to the bit."""

import itertools
import tempfile
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import Case, Outcome, build, engine_config, inputs, train
from zerosim.base.config import CollectivesKind, DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.engine import initialize

pytestmark = pytest.mark.ranks

CLIP = 0.5
STEPS = 3
LARGE_EPSILON = 1e-3
"""With it AdamW moves a weight by a smooth function of its gradient, so rounding stays small."""
CPU = {"offload_optimizer": "cpu"}
NVME = {"offload_optimizer": "nvme"}

SYSTEMS: dict[str, tuple[tuple[int, ...], dict]] = {
    "optimizer on the host": ((1, 2, 3), CPU),
    "optimizer on a disk": ((1, 2, 3), NVME),
    "both on the host": ((3,), {**CPU, "offload_param": "cpu"}),
    "parameters on the host": ((3,), {"offload_param": "cpu"}),
    "parameters on a disk": ((3,), {"offload_param": "nvme"}),
    "optimizer on the host, parameters on a disk": ((3,), {**CPU, "offload_param": "nvme"}),
    "both on a disk": ((3,), {**NVME, "offload_param": "nvme"}),
    "two buffers": ((3,), {**NVME, "offload_param": "nvme", "disk_buffers": 2}),
    "many buffers": ((3,), {**NVME, "offload_param": "nvme", "disk_buffers": 9, "prefetch": 2}),
    "no prefetch": ((3,), {**NVME, "offload_param": "nvme", "prefetch": 0}),
    "no overlap": ((1, 2, 3), {**NVME, "overlap": False}),
    "an owner's host": ((3,), {**CPU, "offload_param": "cpu", "owner_broadcast": "parameters"}),
    "an owner's host, optimizer on the device": (
        (3,),
        {"offload_param": "cpu", "owner_broadcast": "parameters"},
    ),
    "an owner's disk": ((3,), {**NVME, "offload_param": "nvme", "owner_broadcast": "parameters"}),
    "native": ((1, 2, 3), {**NVME, "collectives": CollectivesKind.NATIVE}),
}
"""What is kept beside the device: the stages that can do so, and how it is configured."""
SETTINGS = {
    "bf16": {"dtype": DType.BF16},
    "fp32": {"dtype": DType.FP32},
    "fp16 that overflows": {"dtype": DType.FP16, "initial_loss_scale": 2.0**24},
    "two micro-steps, small buckets": {
        "dtype": DType.BF16,
        "accumulate": 2,
        "bucket_elements": 397,
    },
}
FEW = "two micro-steps, small buckets"


def _cases(model: str, settings: tuple[str, ...]) -> dict[tuple, Case]:
    """Each system in each of its stages, and the stage alone."""
    cases = {}
    for stage, setting, kind in itertools.product((1, 2, 3), settings, CollectivesKind):
        config = engine_config(stage=stage, clip=CLIP, collectives=kind, **SETTINGS[setting])
        cases["alone", kind, stage, setting] = Case(model, config, STEPS)
    for (name, (stages, changes)), setting in itertools.product(SYSTEMS.items(), settings):
        for stage in stages:
            config = engine_config(stage=stage, clip=CLIP, **SETTINGS[setting])
            changed = replace(config, **changes, nvme_path="a folder")
            cases[name, changed.collectives, stage, setting] = Case(model, changed, STEPS)
    cases["alone", "frozen"] = Case("FrozenFirst", engine_config(stage=3), STEPS)
    with_frozen = engine_config(stage=3, **NVME, offload_param="nvme", nvme_path="a folder")
    cases["frozen, on a disk"] = Case("FrozenFirst", with_frozen, STEPS)
    return cases


def _train_all(cases: dict[tuple, Case], folder: str) -> dict[tuple, Outcome]:
    return {
        key: train(replace(case, config=_in_folder(case.config, folder)))
        for key, case in cases.items()
    }


def _in_folder(config: EngineConfig, folder: str) -> EngineConfig:
    return replace(config, nvme_path=folder) if config.nvme_path else config


@pytest.mark.parametrize(
    ("num_ranks", "model", "settings"),
    [
        (1, "mlp", (FEW,)),
        (2, "mlp", (FEW,)),
        pytest.param(4, "gpt", (FEW,), marks=pytest.mark.long),
        pytest.param(2, "gpt", tuple(SETTINGS), marks=pytest.mark.long),
    ],
)
def test_what_is_kept_elsewhere_trains_to_the_same_bits(num_ranks, model, settings, tmp_path):
    cases = _cases(model, settings)
    for outcomes in run_ranks(_train_all, num_ranks, cases, str(tmp_path)):
        frozen = outcomes.pop("frozen, on a disk")
        _require_same(frozen, outcomes.pop(("alone", "frozen")), "frozen")
        for key, outcome in outcomes.items():
            _require_same(outcome, outcomes["alone", *key[1:]], key)


def _require_same(found: Outcome, expected: Outcome, what: object) -> None:
    assert found.losses == expected.losses, what
    assert found.norms == expected.norms, what
    assert found.skipped == expected.skipped, what
    assert found.weights.keys() == expected.weights.keys()
    for name, weight in expected.weights.items():
        assert torch.equal(found.weights[name], weight), (what, name)


# the delayed update


def _train_delayed(steps: int) -> dict[tuple, list[float]]:
    """Losses with the delayed update, and by hand: each step's update is applied one step late."""
    rank, size = dist.get_rank(), dist.get_world_size()
    found = {}
    for stage in (1, 2, 3):
        base = engine_config(stage=stage, epsilon=LARGE_EPSILON)
        config = replace(base, offload_optimizer="cpu", delayed_update=True)
        outcome = train(Case("mlp", config, steps))
        found["engine", stage] = outcome.losses
        found["weights", stage] = outcome.weights
    model = build("mlp", 0)
    late = {name: value.detach().clone() for name, value in model.named_parameters()}
    adam = torch.optim.AdamW(
        late.values(), lr=base.learning_rate, eps=LARGE_EPSILON, weight_decay=0, fused=True
    )
    pending = None
    losses = []
    for iteration in range(steps):
        loss = model(*inputs("mlp", rank, size, iteration, 0))
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / size)
        gradients = {}
        for name, parameter in model.named_parameters():
            dist.all_reduce(parameter.grad)
            gradients[name] = parameter.grad / size
            parameter.grad = None
        if pending is not None:
            _apply(late, adam, pending)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    parameter.copy_(late[name])
        pending = gradients
    _apply(late, adam, pending)
    return found | {"by hand": losses, "last": late}


def _apply(values, adam, gradients):
    for name, value in values.items():
        value.grad = gradients[name]
    adam.step()


def test_a_delayed_update_is_adam_one_step_late():
    for found in run_ranks(_train_delayed, 2, 6):
        for stage in (1, 2, 3):
            assert found["engine", stage] == pytest.approx(found["by hand"], rel=1e-5)
            for name, value in found["last"].items():
                assert torch.allclose(found["weights", stage][name], value, atol=1e-5), name
            assert found["engine", stage] == found["engine", 1]


# going on from the disk


def _train_some(config: EngineConfig, first: int, last: int, *, resumes: bool) -> tuple:
    """Train iterations `first` to `last`, as a run that is begun there or gone on from there."""
    rank, size = dist.get_rank(), dist.get_world_size()
    engine = initialize(build("mlp", rank), config, resume=resumes)
    assert engine.iteration == first
    losses = []
    for iteration in range(first, last):
        for micro_step in range(config.accumulate):
            loss = engine(*inputs("mlp", rank, size, iteration, micro_step))
            engine.backward(loss)
            if engine.is_boundary:
                losses.append(engine.average_loss(loss.item()))
            engine.step()
    weights = engine.full_parameters()
    engine.close()
    return losses, weights


RESUMED = {
    "stage 1": {"stage": 1},
    "stage 2 in fp16": {"stage": 2, "dtype": DType.FP16, "initial_loss_scale": 2.0**24},
    "stage 3": {"stage": 3, "accumulate": 2},
    "stage 3, parameters on the disk": {"stage": 3, "offload_param": "nvme", "clip": CLIP},
}


def _resume_all() -> dict[str, tuple]:
    found = {}
    for name, changes in RESUMED.items():
        shared = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
        dist.broadcast_object_list(shared)
        config = engine_config(**{**NVME, "nvme_path": shared[0], **changes})
        whole = _train_some(config, 0, 5, resumes=False)
        first = _train_some(config, 0, 3, resumes=False)
        dist.barrier()
        second = _train_some(config, 3, 5, resumes=True)
        found[name] = whole, (first[0] + second[0], second[1])
    return found


def test_a_run_goes_on_from_the_disk_as_if_it_had_never_ended():
    for found in run_ranks(_resume_all, 2):
        for name, (whole, resumed) in found.items():
            assert whole[0] == resumed[0], name
            assert all(torch.equal(value, resumed[1][key]) for key, value in whole[1].items())


def test_there_must_be_a_state_of_this_model_to_go_on_from(tmp_path):
    config = engine_config(stage=1, **NVME, nvme_path=str(tmp_path))
    with pytest.raises(ConfigError, match="nothing to resume"):
        initialize(build("mlp", 0), config, resume=True)
    initialize(build("mlp", 0), config).close()
    with pytest.raises(ConfigError, match="the state of a different model"):
        initialize(build("gpt", 0), config, resume=True)
    initialize(build("mlp", 0), config, resume=True).close()
    on_host = engine_config(stage=1, **CPU)
    with pytest.raises(ConfigError, match="expected nvme"):
        initialize(build("mlp", 0), on_host, resume=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stage": 0, **CPU}, "offload-optimizer is asked for in stage 0"),
        ({"stage": 2, "offload_param": "cpu"}, "offload-param is asked for in stage 2"),
        ({"stage": 1, **NVME}, "nvme-path is not given"),
        ({"stage": 1, "delayed_update": True}, "delayed-update"),
        ({"stage": 3, "owner_broadcast": "parameters"}, "owner-broadcast"),
        ({"stage": 1, **CPU, "disk_buffers": 1}, "disk-buffers is 1"),
    ],
)
def test_what_does_not_go_together_is_said(changes, words):
    with pytest.raises(ConfigError, match=words):
        engine_config(**changes)
