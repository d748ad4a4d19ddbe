"""fp16: what overflows on one rank is skipped by all, and training goes on."""

import math

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import build, inputs
from zerosim.base.config import EngineConfig
from zerosim.train.engine import initialize

pytestmark = pytest.mark.ranks

NUM_RANKS = 3
BROKEN_RANK, BROKEN_STEP = 1, 2
STEPS, FEW = 8, 3


def _train(stage, initial_scale, breaks, steps):
    config = EngineConfig(
        stage=stage, dtype="fp16", initial_loss_scale=initial_scale, loss_scale_interval=3
    )
    engine = initialize(build("mlp", seed=0), config)
    # a gradient that one rank alone gets wrong
    weight = engine._units[1].unit.slots[0].parameter
    step = 0

    def spoil(gradient):
        is_broken = breaks and dist.get_rank() == BROKEN_RANK and step == BROKEN_STEP
        return gradient * math.inf if is_broken else gradient

    seen = {"scales": [], "skipped": [], "weights": [], "losses": []}
    hook = weight.register_hook(spoil) if stage < 3 else None
    if stage == 3:
        engine.model.hidden[0][0].register_full_backward_hook(
            lambda _, grads, __: tuple(None if g is None else spoil(g) for g in grads)
        )
    for step in range(steps):
        loss = engine(*inputs("mlp", dist.get_rank(), NUM_RANKS, step, 0))
        engine.backward(loss)
        engine.step()
        seen["losses"].append(loss.item())
        seen["scales"].append(engine.loss_scale)
        seen["skipped"].append(engine.skipped_steps)
        whole = torch.cat([w.view(-1) for w in engine.full_parameters().values()])
        seen["weights"].append(whole)
    if hook is not None:
        hook.remove()
    engine.close()
    return seen


def _train_all():
    runs = {
        (stage, "breaks"): _train(stage, 1024.0, breaks=True, steps=STEPS) for stage in range(4)
    }
    runs |= {(stage, "huge"): _train(stage, 2.0**40, breaks=False, steps=FEW) for stage in range(4)}
    return runs


@pytest.fixture(scope="module")
def ranks():
    return run_ranks(_train_all, NUM_RANKS)


@pytest.mark.parametrize("stage", range(4))
def test_one_ranks_overflow_is_skipped_by_all(ranks, stage):
    for runs in ranks:
        run = runs[stage, "breaks"]
        assert run["skipped"] == [0, 0, 1, 1, 1, 1, 1, 1]
        # doubled after 3 good steps, halved at the overflow
        assert run["scales"] == [1024, 1024, 512, 512, 512, 1024, 1024, 1024]
        weights = run["weights"]
        assert torch.equal(weights[BROKEN_STEP], weights[BROKEN_STEP - 1])
        for before, after in ((0, 1), (2, 3), (6, 7)):
            assert not torch.equal(weights[before], weights[after])
        assert torch.isfinite(weights[-1]).all()
        for mine, first in zip(weights, ranks[0][0, "breaks"]["weights"], strict=True):
            assert torch.equal(mine, first)


@pytest.mark.parametrize("stage", range(4))
def test_a_scale_that_is_too_large_comes_down_by_itself(ranks, stage):
    run = ranks[0][stage, "huge"]
    assert run["skipped"] == list(range(1, FEW + 1))
    assert run["scales"] == [2.0 ** (39 - step) for step in range(FEW)]
    assert all(math.isfinite(loss) for loss in run["losses"])
