"""A model that has no memory yet is made as it is divided, with the values of one made whole."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.ranks import run_ranks
from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.engine import initialize

pytestmark = pytest.mark.ranks

SEED, WIDTH = 5, 7


class Model(nn.Module):
    """Layers, a norm with buffers, and what belongs to the root."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH + 2), nn.ReLU(), nn.Linear(WIDTH + 2, WIDTH))
            for _ in range(3)
        )
        self.norm = nn.BatchNorm1d(WIDTH)
        self.head = nn.Linear(WIDTH, 3, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x)).float().square().mean()


class Unmakeable(Model):
    """A parameter that no `reset_parameters` draws."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(WIDTH))


class Tied(Model):
    """A parameter that two layers draw."""

    def __init__(self):
        super().__init__()
        self.again = nn.Linear(WIDTH, 3, bias=False)
        self.again.weight = self.head.weight


def _made(kind: type[nn.Module], device: str) -> nn.Module:
    torch.manual_seed(SEED)
    with torch.device(device):
        return kind()


def _train(changes: dict) -> tuple[list[dict], list[float]]:
    """Parameters and buffers before the first step and after it, and the losses: whole, late."""
    found, losses = [], []
    for device in ("cpu", "meta"):
        model = _made(Model, device)
        engine = initialize(model, EngineConfig(**changes))
        before = engine.full_parameters()
        loss = engine(torch.arange(11))
        engine.backward(loss)
        engine.step()
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        found.append(before | engine.full_parameters() | buffers)
        losses.append(loss.item())
        engine.close()
    return found, losses


@pytest.mark.parametrize(
    ("num_ranks", "changes"),
    [
        (1, {"stage": 0}),
        (2, {"stage": 3, "dtype": "bf16", "units": ("blocks.*", "head")}),
        (3, {"stage": 3, "dtype": "fp32", "owner_broadcast": "states"}),
        (2, {"stage": 2, "dtype": "fp32", "offload_optimizer": "cpu"}),
    ],
)
def test_a_model_made_late_has_the_bits_of_one_made_whole(num_ranks, changes):
    for (whole, late), losses in run_ranks(_train, num_ranks, changes):
        assert losses[0] == losses[1]
        assert whole.keys() == late.keys()
        for name, values in whole.items():
            assert torch.equal(values, late[name]), name


def test_parameters_stay_the_objects_that_they_were():
    model = _made(Model, "meta")
    before = dict(model.named_parameters())
    engine = initialize(model, EngineConfig(stage=0))
    assert all(model.get_parameter(name) is one for name, one in before.items())
    engine.close()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Unmakeable, r"the model \(Unmakeable\) is on the meta device and has no reset_parameters"),
        (Tied, "again shares a parameter with head and is on the meta device"),
    ],
)
def test_what_nobody_can_draw_is_refused(kind, words):
    with pytest.raises(ConfigError, match=words):
        initialize(_made(kind, "meta"), EngineConfig())
    initialize(_made(kind, "cpu"), EngineConfig()).close()
