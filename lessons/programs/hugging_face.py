"""A loop as Hugging Face's users write it for DeepSpeed: a configuration, `outputs.loss`, a step.

The same lines train with zerosim's engine and, with `--deepspeed`, with DeepSpeed itself. Started
by torchrun with the options of `zerosim run`; it reads the stage, the number of
micro-steps, the size of a bucket and the folder of the trace.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import torch.distributed as dist
from gpt2 import small_gpt2  # type: ignore[import-not-found]

import zerosim
from zerosim.train.models import Batches

CONFIG = Path(__file__).with_name("ds_config.json")
TOKENS, STEPS = 64, 2
FOR_A_SMALL_MODEL = {
    "stage3_param_persistence_threshold": 1_000,
    "stage3_prefetch_bucket_size": 5_000,
    "stage3_max_reuse_distance": 0,
}
"""DeepSpeed's stage 3 would keep a model as small as this one whole: its limits, made as small."""


def configuration(given: argparse.Namespace, num_ranks: int) -> dict[str, Any]:
    """What `ds_config.json` says, with what was given on the command line in its place."""
    config: dict[str, Any] = json.loads(CONFIG.read_text(encoding="utf-8"))
    zero = config["zero_optimization"]
    if given.stage is not None:
        zero["stage"] = given.stage
    if given.bucket_elements is not None:
        zero["reduce_bucket_size"] = given.bucket_elements
    if zero["stage"] == 3:
        zero |= FOR_A_SMALL_MODEL
    if given.accumulate is not None:
        config["gradient_accumulation_steps"] = given.accumulate
    config["train_batch_size"] = (
        config["train_micro_batch_size_per_gpu"] * config["gradient_accumulation_steps"] * num_ranks
    )
    return config


def main() -> None:
    """Train for two steps, recorded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--stage", type=int)
    parser.add_argument("--accumulate", type=int)
    parser.add_argument("--bucket-elements", type=int)
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    given, _ = parser.parse_known_args()
    deepspeed = the_real_one() if given.deepspeed else zerosim
    deepspeed.init_distributed("gloo")
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    config = configuration(given, num_ranks)
    batch = config["train_micro_batch_size_per_gpu"]
    batches = Batches(seed=0, rank=rank, num_ranks=num_ranks, batch=batch, context=TOKENS - 1)
    with zerosim.trace(given.out, memory=not given.no_memory):
        train(deepspeed, small_gpt2(TOKENS), batches, config)
    dist.destroy_process_group()


def train(deepspeed: Any, model: Any, batches: Batches, config: dict[str, Any]) -> None:
    """The loop: nothing in it knows who carries it out."""
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config_params=config
    )
    for number in range(STEPS * config["gradient_accumulation_steps"]):
        tokens = batches.at(number)
        outputs = engine(input_ids=tokens, labels=tokens)
        engine.backward(outputs.loss)
        engine.step()


def the_real_one() -> Any:
    """DeepSpeed, so that it runs where no compiler is."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # would be compiled at the first collective, for a minute and a half
    import_module("deepspeed.ops").__compatible_ops__["deepspeed_shm_comm"] = False
    return import_module("deepspeed")


if __name__ == "__main__":
    main()
