"""DeepSpeed's stages with its defaults, in fp32, without clipping."""

from __future__ import annotations

import importlib
import logging
import os
import warnings
from functools import partial
from typing import Any

from zerosim.base.config import RunConfig
from zerosim.systems.step import LEARNING_RATE, Step, model_of
from zerosim.train.models import Batches


def _stage(number: int, run: RunConfig, batches: Batches) -> Step:
    config = {
        "train_micro_batch_size_per_gpu": run.batch,
        "gradient_clipping": 0.0,
        "optimizer": {
            "type": "AdamW",
            # PyTorch's own optimizer: DeepSpeed's would be compiled first
            "params": {"lr": LEARNING_RATE, "weight_decay": 0.0, "torch_adam": True},
        },
        "zero_optimization": {"stage": number},
    }
    model = model_of(run)
    engine, *_ = _deepspeed().initialize(
        model=model, model_parameters=model.parameters(), config=config
    )

    def step(iteration: int) -> float:
        loss = engine(batches.at(iteration))
        engine.backward(loss)
        engine.step()
        value: float = loss.item()
        return value

    return step


stage_0, stage_1, stage_2, stage_3 = (partial(_stage, number) for number in range(4))


def _deepspeed() -> Any:
    """DeepSpeed, set up to run without a compiler and without output."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    # DeepSpeed would compile it at the first collective, which takes a minute and a half
    importlib.import_module("deepspeed.ops").__compatible_ops__["deepspeed_shm_comm"] = False
    return importlib.import_module("deepspeed")
