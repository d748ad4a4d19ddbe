"""One loop through DeepSpeed and through zerosim: the import is all that differs."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from unittest import mock

import pytest
from torch.utils.data import DataLoader

import zerosim
from tests.ranks import run_ranks
from tests.train.deepspeed.training import BF16, prepare

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.ranks,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None,
        reason="DeepSpeed is not installed: make deepspeed",
    ),
]

LOOP = Path(__file__).with_name("loop.py")
BASE = {
    "train_batch_size": 16,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 0.5,
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": 0.01, "weight_decay": 0.1, "torch_adam": True},
    },
    "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.01, "warmup_num_steps": 4}},
}
L2 = {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True, "adam_w_mode": False}}
SCHEDULERS = {
    "WarmupDecayLR": {"total_num_steps": 10, "warmup_num_steps": 3, "warmup_type": "linear"},
    "WarmupCosineLR": {"total_num_steps": 10, "warmup_num_steps": 3},
    "LRRangeTest": {"lr_range_test_step_size": 3, "lr_range_test_staircase": True},
}
FP32 = {
    **{f"stage {stage}": BASE | {"zero_optimization": {"stage": stage}} for stage in range(4)},
    **{
        name: BASE
        | {"zero_optimization": {"stage": 1}, "scheduler": {"type": name, "params": keys}}
        for name, keys in SCHEDULERS.items()
    },
    "Adam": BASE | {"zero_optimization": {"stage": 2}, "optimizer": L2},
    "default clipping": {key: value for key, value in BASE.items() if key != "gradient_clipping"},
}
IN_BF16 = {
    f"stage {stage}, bf16": BASE | BF16 | {"zero_optimization": {"stage": stage}}
    for stage in (1, 2, 3)
}
CASES = FP32 | IN_BF16
ROUNDING = 2e-6
"""DeepSpeed divides a loss where zerosim divides a sum, and adds 1e-6 to a norm."""


def _without_workers(*args, **options):
    """DeepSpeed's loader starts processes, which a rank of a test may not."""
    return DataLoader(*args, **options | {"num_workers": 0})


def _train_both():
    found = {}
    prepare()
    import deepspeed.runtime.dataloader

    deepspeed.runtime.dataloader.DataLoader = _without_workers
    for name, module in (("deepspeed", deepspeed), ("zerosim", zerosim)):
        with mock.patch.dict(sys.modules, deepspeed=module):
            spec = importlib.util.spec_from_file_location("the_loop", LOOP)
            loop = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loop)
        for case, config in CASES.items():
            args = argparse.Namespace(local_rank=-1, deepspeed_config=config)
            engine, losses, rates = loop.train(args)
            found[name, case] = (losses, rates)
            engine.destroy()
    return found


@pytest.fixture(scope="module")
def ranks():
    return run_ranks(_train_both, 2, deadline_s=500)


@pytest.mark.parametrize("case", CASES)
def test_the_same_losses_and_learning_rates(ranks, case):
    for found in ranks:
        losses, rates = found["zerosim", case]
        expected, deepspeeds_rates = found["deepspeed", case]
        assert rates == deepspeeds_rates
        assert len(set(rates)) > 1
        assert losses == (expected if case in IN_BF16 else pytest.approx(expected, rel=ROUNDING))
