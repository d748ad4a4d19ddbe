"""A loop as Hugging Face's users write it for DeepSpeed: a configuration, `outputs.loss`, a step.

The same lines train with zerosim's engine and, with `--deepspeed`, with DeepSpeed itself. Started
by torchrun with the options of `zerosim run`, of which it reads the stage, the number of
micro-steps, the size of a bucket and the folder of the trace.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
import os
from typing import Any

import torch.distributed as dist
from gpt2 import small_gpt2

import zerosim
from zerosim.models import Batches

TOKENS, MICRO_BATCH, STEPS = 64, 2, 2
FOR_A_SMALL_MODEL = {
    "stage3_param_persistence_threshold": 1_000,
    "stage3_prefetch_bucket_size": 5_000,
    "stage3_max_reuse_distance": 0,
}
"""DeepSpeed's stage 3 would keep a model as small as this one whole: its limits, made as small."""


def configuration(stage: int, accumulate: int, bucket: int, num_ranks: int) -> dict[str, Any]:
    """The file `ds_config.json`, as a dictionary."""
    zero: dict[str, Any] = {
        "stage": stage,
        "allgather_partitions": True,
        "allgather_bucket_size": int(2e8),
        "overlap_comm": True,
        "reduce_scatter": True,
        "reduce_bucket_size": bucket,
        "contiguous_gradients": True,
    }
    return {
        "train_batch_size": MICRO_BATCH * accumulate * num_ranks,
        "train_micro_batch_size_per_gpu": MICRO_BATCH,
        "gradient_accumulation_steps": accumulate,
        # PyTorch's own: DeepSpeed's is compiled first
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": True},  # a CPU has no operators of fp16 for DeepSpeed
        "zero_optimization": zero | (FOR_A_SMALL_MODEL if stage == 3 else {}),
    }


def main() -> None:
    """Train for two steps, recorded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--bucket-elements", type=int, default=int(2e8))
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    given, _ = parser.parse_known_args()
    deepspeed = the_real_one() if given.deepspeed else zerosim
    deepspeed.init_distributed("gloo")
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    batches = Batches(seed=0, rank=rank, num_ranks=num_ranks, batch=MICRO_BATCH, context=TOKENS - 1)
    config = configuration(given.stage, given.accumulate, given.bucket_elements, num_ranks)
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
    import deepspeed
    import deepspeed.ops

    # would be compiled at the first collective, for a minute and a half
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


if __name__ == "__main__":
    main()
