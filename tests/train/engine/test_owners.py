"""Owners that keep whole units train as the stage that cuts them does."""

from __future__ import annotations

import pytest
import torch

from tests.ranks import run_ranks
from tests.train.engine.samples import Case, Outcome, engine_config, train
from zerosim.base.config import CollectivesKind, DType, EngineConfig
from zerosim.base.errors import ConfigError

pytestmark = pytest.mark.ranks

STEPS = 3
LARGE_EPSILON = 1e-3
"""With it AdamW moves a weight by a smooth function of its gradient, so rounding stays small."""
MODELS = ("mlp", "FrozenFirst", "UsedTwice")
SETTINGS = {
    "fp32": {"clip": 0.5},
    "two micro-steps": {"dtype": DType.BF16, "accumulate": 2, "prefetch": 0},
    "fp16 that overflows": {"dtype": DType.FP16, "initial_loss_scale": 2.0**24},
    "short chunks, no overlap": {"chunk_bytes": 1024, "overlap": False, "contiguous_memory": True},
    "native": {"collectives": CollectivesKind.NATIVE},
}
OWNERS = ("none", "states")


def _train_all(settings: tuple[str, ...], models: tuple[str, ...]) -> dict[tuple, Outcome]:
    return {
        (model, name, owners): train(
            Case(
                model,
                engine_config(
                    stage=3, epsilon=LARGE_EPSILON, owner_broadcast=owners, **SETTINGS[name]
                ),
                STEPS,
            )
        )
        for name in settings
        for model in models
        for owners in OWNERS
    }


def _pairs(outcomes: dict[tuple, Outcome]) -> list[tuple[tuple, Outcome, Outcome]]:
    return [
        (key, outcome, outcomes[(*key[:2], "states")])
        for key, outcome in outcomes.items()
        if key[-1] == "none"
    ]


@pytest.mark.parametrize(
    ("num_ranks", "models"),
    [pytest.param(2, MODELS), pytest.param(1, MODELS[:1])],
)
def test_of_two_numbers_there_is_one_sum(num_ranks, models):
    """Two ranks compute the same sums whichever of them owns a row: not a bit differs."""
    for outcomes in run_ranks(_train_all, num_ranks, tuple(SETTINGS), models):
        for key, cut, owned in _pairs(outcomes):
            assert owned.losses == cut.losses, key
            assert owned.skipped == cut.skipped, key
            assert owned.norms == pytest.approx(cut.norms, rel=1e-14), key
            for name, weight in cut.weights.items():
                assert torch.equal(owned.weights[name], weight), (key, name)


def test_of_more_numbers_the_sums_differ_by_rounding():
    """A chain adds all rows in the order of the owner, a ring each in the order of its rank."""
    for outcomes in run_ranks(_train_all, 4, ("fp32", "short chunks, no overlap"), MODELS[:1]):
        for key, cut, owned in _pairs(outcomes):
            assert owned.losses == pytest.approx(cut.losses, rel=1e-6), key
            for name, weight in cut.weights.items():
                assert torch.allclose(owned.weights[name], weight, rtol=1e-5, atol=1e-6), (
                    key,
                    name,
                )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"owner_broadcast": "parameters"}, "offload-param none: expected offload-param cpu or"),
        ({"owner_broadcast": "all"}, "unknown owner-broadcast 'all': expected one of none, param"),
        ({"stage": 2, "owner_broadcast": "states"}, "owner-broadcast is asked for in stage 2"),
        ({"owner_broadcast": "states", "offload_param": "cpu"}, "states with offload-param"),
        ({"owner_broadcast": "states", "offload_optimizer": "cpu"}, "with offload-optimizer"),
        ({"owner_broadcast": "states", "quantize_gradients": True}, "with quantize-gradients"),
        ({"owner_broadcast": "states", "bucket_elements": 9}, "states with bucket-elements"),
        ({"owner_broadcast": "states", "quantize_weights": True}, "asked for with owner-broadcast"),
    ],
)
def test_what_has_no_meaning_with_owners_is_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        EngineConfig(**{"stage": 3, **changes})


def test_a_trace_of_before_says_yes_or_no():
    assert EngineConfig.from_plain({"stage": 3, "owner_broadcast": False}).has_owners is False
    before = {"stage": 3, "owner_broadcast": True, "offload_param": "cpu"}
    config = EngineConfig.from_plain(before)
    assert (config.owner_broadcast, config.owners_update) == ("parameters", False)
    assert config.to_plain()["owner_broadcast"] == "parameters"
