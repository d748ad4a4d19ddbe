"""Blocks that are computed again in backward: the same bits, and only their inputs kept."""

from collections import Counter

import pytest
import torch
from torch import nn

from tests.ranks import run_ranks
from tests.train.engine.samples import (
    BATCH,
    CONTEXT,
    Case,
    Layer,
    Stack,
    build,
    engine_config,
    inputs,
    train,
)
from zerosim import trace
from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier
from zerosim.record import load
from zerosim.schema.events import Kind, Phase, Purpose
from zerosim.schema.memory import Moment, Role
from zerosim.trace import allocations
from zerosim.trace.holdings import holdings
from zerosim.train.collectives import RankGroup
from zerosim.train.engine import initialize

ALONE = RankGroup()
WAYS = {
    "on the device": {},
    "in an arena": {"contiguous_memory": True},
    "on the host": {"cpu_checkpointing": True},
    "on the host, from an arena": {"cpu_checkpointing": True, "contiguous_memory": True},
    "on the host, one copy after another": {"cpu_checkpointing": True, "overlap": False},
}
MODELS = (
    "gpt",
    "UsedTwice",
    "FrozenFirst",
    "Tied",
    "OtherOutputs",
    "CheckpointInside",
    "NestedContainers",
    "CheckpointBlock",
    "FrozenBlock",
    "FrozenStart",
    "FrozenTwice",
    "Branches",
    "UnusedParameter",
)
GPT_LAYERS, GPT_WIDTH = 2, 32
INPUT_BYTES = BATCH * CONTEXT * GPT_WIDTH * 4


def config(stage, **changes):
    return engine_config(stage=stage, accumulate=2, **changes)


def checkpointed(stage, **changes):
    return config(stage, checkpoint_activations=True, **changes)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stage", [0, 3])
def test_gradients_are_the_same_bits(model, stage):
    plain = train(Case(model, config(stage), 2), ALONE)
    for way, changes in WAYS.items():
        again = train(Case(model, checkpointed(stage, **changes), 2, evaluates=True), ALONE)
        assert not again.differs_from(plain), way


def _on_two_ranks():
    return {
        (stage, name): train(Case("gpt", config(stage, **changes), 2))
        for stage in range(4)
        for name, changes in {
            "none": {},
            "kept": {"checkpoint_activations": True},
            "away": {"checkpoint_activations": True, "cpu_checkpointing": True},
        }.items()
    }


@pytest.mark.ranks
def test_every_stage_trains_as_without_on_two_ranks():
    for outcomes in run_ranks(_on_two_ranks, 2):
        for (stage, name), outcome in outcomes.items():
            assert not outcome.differs_from(outcomes[stage, "none"]), (stage, name)


class Noisy(nn.Module):
    """Blocks that draw random numbers."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(Layer(), nn.Dropout(0.5)) for _ in range(2))

    def forward(self, x, iteration):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def _noisy_gradients(engine_configuration):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        engine = initialize(Noisy(), engine_configuration, ALONE)
        for step in range(2):
            engine.backward(engine(*inputs("Stack", 0, 1, step, 0)))
            engine.step()
        weights, drawn = engine.full_parameters(), torch.rand(())
        engine.close()
    return torch.cat([weight.flatten() for weight in weights.values()]), drawn


def test_random_numbers_are_drawn_again():
    plain, next_number = _noisy_gradients(engine_config())
    again, next_again = _noisy_gradients(engine_config(checkpoint_activations=True))
    assert torch.equal(plain, again)
    assert torch.equal(next_number, next_again), "nobody notices that numbers were drawn twice"


def _kept():
    """Bytes of checkpoints that are alive."""
    return sum(held.bytes() or 0 for held in holdings if held.role is Role.CHECKPOINTS)


@pytest.mark.parametrize("way", WAYS)
def test_what_backward_does_not_need_is_let_go(way):
    engine = initialize(build("gpt", 0), checkpointed(1, **WAYS[way]), ALONE)
    before = _kept()
    loss = engine(*inputs("gpt", 0, 1, 0, 0))
    assert _kept() - before == GPT_LAYERS * INPUT_BYTES
    del loss
    assert _kept() == before, "a forward that has no backward"
    engine.backward(engine(*inputs("gpt", 0, 1, 0, 0)))
    assert _kept() == before
    engine.close()


@pytest.mark.parametrize("way", ["on the device", "on the host"])
def test_a_trace_shows_what_is_kept_and_copied(tmp_path, way):
    engine = initialize(build("gpt", 0), checkpointed(0, **WAYS[way]), ALONE)
    with trace(tmp_path):
        for micro_step in range(2):
            engine.backward(engine(*inputs("gpt", 0, 1, 0, micro_step)))
            engine.step()
    engine.close()
    rank = load(tmp_path, strict=True).ranks[0]
    sizes, at_border, recomputed = {}, {}, []
    for sample in rank.memory_samples:
        sizes |= {(h.role, h.unit, h.tier): h.bytes for h in sample.changes}
        if sample.moment is Moment.RECOMPUTED:
            held = [u for (role, u, _), b in sizes.items() if role is Role.ACTIVATIONS and b]
            blocks = [unit for unit in held if unit.startswith("blocks.")]
            inside = rank.events.find(sample.event)
            recomputed.append((sample.micro_step, inside.phase, inside.unit, *blocks))
        if sample.event is None:
            at_border[sample.phase, sample.micro_step] = held = Counter()
            for (role, unit, tier), num_bytes in sizes.items():
                if role in {Role.CHECKPOINTS, Role.ACTIVATIONS} and unit.startswith("blocks."):
                    held[role, tier] += num_bytes
    home = Tier.HOST if way == "on the host" else Tier.DEVICE
    inputs_alone = {(Role.CHECKPOINTS, home): GPT_LAYERS * INPUT_BYTES}
    for micro_step in range(2):
        assert +at_border[Phase.BACKWARD, micro_step] == inputs_alone
    assert not +at_border[Phase.UPDATE, 1]
    # one block at a time, inside of its own backward
    blocks = [(step, block) for step in range(2) for block in ("blocks.1", "blocks.0")]
    assert recomputed == [(step, Phase.BACKWARD, block, block) for step, block in blocks]
    copies = [event for event in rank.events if event.kind is Kind.COPY]
    assert all(event.payload_bytes == INPUT_BYTES for event in copies)
    there = (Phase.FORWARD, Purpose.OFFLOAD_ACTIVATIONS, Tier.DEVICE, Tier.HOST)
    back = (Phase.BACKWARD, Purpose.FETCH_ACTIVATIONS, Tier.HOST, Tier.DEVICE)
    order = [
        *((*there, 0, "blocks.0"), (*there, 0, "blocks.1")),
        *((*back, 0, "blocks.1"), (*back, 0, "blocks.0")),
        *((*there, 1, "blocks.0"), (*there, 1, "blocks.1")),
        *((*back, 1, "blocks.1"), (*back, 1, "blocks.0")),
    ]
    seen = [(e.phase, e.purpose, e.origin, e.target, e.micro_step, e.unit) for e in copies]
    assert seen == (order if home is Tier.HOST else [])


def test_allocations_are_not_read_in_the_midst_of_a_backward(tmp_path, monkeypatch):
    """Autograd would put the record back that there was when an operator's backward began."""
    monkeypatch.setattr(allocations, "_MOST_MARKS", 1)
    engine = initialize(build("gpt", 0), checkpointed(0), ALONE)
    with trace(tmp_path, allocations=True):
        for step in range(4):
            engine.backward(engine(*inputs("gpt", 0, 1, step, 0)))
            engine.step()
    engine.close()
    rank = load(tmp_path, strict=True).ranks[0]
    read = [number for row in rank.allocations for number in row.numbers]
    assert read == [sample.number for sample in rank.memory_samples]


class ChangesItsInput(Stack):
    class Block(Layer):
        def forward(self, x):
            y = super().forward(x)
            x.mul_(2.0)
            return y

    def __init__(self):
        super().__init__()
        self.blocks[1] = self.Block()


class ForgetsItself(Stack):
    class Block(Layer):
        times = 0

        def forward(self, x):
            self.times += 1
            return super().forward(x) if self.times == 1 else torch.tanh(super().forward(x))

    def __init__(self):
        super().__init__()
        self.blocks[1] = self.Block()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ChangesItsInput, r"an input of unit blocks\.1 was changed in place"),
        (ForgetsItself, r"unit blocks\.1 saved \d+ tensors for backward, and \d+ when it was"),
    ],
)
def test_a_block_that_cannot_be_computed_again_is_refused(model, message):
    engine = initialize(model(), engine_config(checkpoint_activations=True), ALONE)
    loss = engine(*inputs("Stack", 0, 1, 0, 0))
    with pytest.raises(ConfigError, match=message):
        engine.backward(loss)
    engine.close()


def test_a_closed_engine_gives_the_model_back():
    model = build("gpt", 0)
    own = model.blocks[1].forward = nn.Identity().forward
    engine = initialize(model, engine_config(checkpoint_activations=True), ALONE)
    assert "forward" in vars(model.blocks[0])
    engine.close()
    assert "forward" not in vars(model.blocks[0])
    assert model.blocks[1].forward == own
