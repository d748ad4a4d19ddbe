"""`python -m tests.train.deepspeed`: what DeepSpeed sends beside the law and zerosim's engine.

Trains gpt-tiny for real under each configuration, traced, and prints the last step of rank 0 as a
table in Markdown: how much travels, in Psi, where an all-reduce counts twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter

import torch.distributed as dist

import zerosim
from tests.ranks import run_ranks
from tests.train.deepspeed.training import BF16, KEEPS_NOTHING, OFFLOAD, ON_CPU, prepare, zero
from zerosim import EngineConfig
from zerosim.base.config import ModelName
from zerosim.record import load
from zerosim.schema.events import Kind, Op, Phase, Purpose
from zerosim.train.models import Batches, build, context_of

MODEL = ModelName.GPT_TINY
STEPS = 3
SEQUENCES = 2
ELEMENT_BYTES = {"float32": 4, "bfloat16": 2}
PARTS = {
    "gathered in forward": (Phase.FORWARD, Purpose.GATHER_PARAMETERS),
    "in backward": (Phase.BACKWARD, Purpose.GATHER_PARAMETERS),
    "after the update": (Phase.UPDATE, Purpose.GATHER_PARAMETERS),
    "gradients": (Phase.BACKWARD, Purpose.REDUCE_GRADIENTS),
}
CASES = {
    "stage 0": zero(0),
    "stage 0, g = 2": zero(0, accumulate=2),
    "stage 1": zero(1),
    "stage 1, g = 2": zero(1, accumulate=2),
    "stage 1, bf16": zero(1, dtype=BF16),
    "stage 2": zero(2),
    "stage 2, g = 2": zero(2, accumulate=2),
    "stage 2, `use_multi_rank_bucket_allreduce: false`": zero(
        2, use_multi_rank_bucket_allreduce=False
    ),
    "stage 2, `reduce_scatter: false`": zero(2, reduce_scatter=False),
    "stage 2, `reduce_bucket_size: 500000`": zero(2, reduce_bucket_size=500_000),
    "stage 2, `overlap_comm: true`": zero(2, overlap_comm=True),
    "stage 2, `offload_optimizer`": zero(2, **OFFLOAD),
    "stage 3": zero(3),
    "stage 3, g = 2": zero(3, accumulate=2),
    "stage 3, bf16": zero(3, dtype=BF16),
    "stage 3, persistence threshold 0": zero(3, stage3_param_persistence_threshold=0),
    "stage 3, no prefetch": zero(3, stage3_prefetch_bucket_size=0),
    "stage 3, reuse distance 0": zero(3, stage3_max_reuse_distance=0),
    "stage 3, no prefetch, reuse distance 0": zero(
        3, stage3_prefetch_bucket_size=0, stage3_max_reuse_distance=0
    ),
    "stage 3, all three": zero(3, **KEEPS_NOTHING),
    "stage 3, all three, g = 2": zero(3, accumulate=2, **KEEPS_NOTHING),
    "stage 3, persistence threshold and reuse distance 0, live parameters 500000": zero(
        3,
        stage3_param_persistence_threshold=0,
        stage3_max_reuse_distance=0,
        stage3_max_live_parameters=500_000,
    ),
    "stage 3, `reduce_scatter: false`": zero(3, reduce_scatter=False),
    "stage 3, parameters and optimizer offloaded": zero(3, offload_param=ON_CPU, **OFFLOAD),
}


def train_all(folder: str) -> None:
    """Train under DeepSpeed in each case, and with zerosim's engine where it can do the same."""
    deepspeed = prepare()
    for number, config in enumerate(CASES.values()):
        model = build(MODEL, 0)
        with zerosim.trace(f"{folder}/deepspeed-{number}"):
            engine, *_ = deepspeed.initialize(
                model=model, model_parameters=model.parameters(), config=config
            )
            _train(engine, config)
        engine.destroy()
    for stage, accumulate in sorted({_setting(config) for config in CASES.values()}):
        with zerosim.trace(f"{folder}/engine-{stage}-{accumulate}"):
            settings = EngineConfig(stage=stage, accumulate=accumulate)
            engine = zerosim.initialize(build(MODEL, 0), settings)
            _train(engine, {"gradient_accumulation_steps": accumulate})
            engine.close()


def _train(engine, config):
    batches = Batches(
        seed=0,
        rank=dist.get_rank(),
        num_ranks=dist.get_world_size(),
        batch=SEQUENCES,
        context=context_of(MODEL),
    )
    for iteration in range(STEPS):
        for micro_step in range(config["gradient_accumulation_steps"]):
            engine.backward(engine(batches.at(iteration, micro_step)))
            engine.step()


def _setting(config):
    return config["zero_optimization"]["stage"], config["gradient_accumulation_steps"]


def law(stage: int, accumulate: int) -> int:
    """Psi in a step, as the paper has it; stage 2 reduces in each micro-step, stage 3 all of it."""
    return {0: 2, 1: 2, 2: accumulate + 1, 3: 3 * accumulate}[stage]


def measured(folder: str, num_parameters: int) -> dict[str, float]:
    """Psi by part, in the last step of rank 0."""
    found: Counter[str] = Counter()
    names = {place: name for name, place in PARTS.items()}
    for event in load(folder, strict=True).ranks[0].events:
        is_last = event.kind is Kind.COLLECTIVE and event.iteration == STEPS - 1
        name = names.get((event.phase, event.purpose))
        if is_last and name:
            factor = 2 if event.op is Op.ALL_REDUCE else 1
            num_bytes = num_parameters * ELEMENT_BYTES[event.dtype]
            found[name] += factor * event.payload_bytes / num_bytes
    return dict(found)


def main() -> int:
    """Run, and print the table."""
    options = argparse.ArgumentParser(prog="python -m tests.train.deepspeed", description=__doc__)
    options.add_argument("--ranks", type=int, default=4)
    num_ranks = options.parse_args().ranks
    num_parameters = sum(one.numel() for one in build(MODEL, 0).parameters())
    with tempfile.TemporaryDirectory() as folder:
        run_ranks(train_all, num_ranks, folder, deadline_s=900)
        lines = [["configuration", *PARTS, "DeepSpeed sends", "law", "zerosim's engine sends"]]
        lines.append(["---"] * len(lines[0]))
        for number, (name, config) in enumerate(CASES.items()):
            parts = measured(f"{folder}/deepspeed-{number}", num_parameters)
            stage, accumulate = _setting(config)
            engine = measured(f"{folder}/engine-{stage}-{accumulate}", num_parameters)
            shown = [f"{parts[part]:.3f}" if part in parts else "" for part in PARTS]
            total, own = sum(parts.values()), sum(engine.values())
            expected = law(stage, accumulate)
            lines.append([name, *shown, f"**{total:.3f}**", f"{expected}", f"{own:.3f}"])
    for line in lines:
        sys.stdout.write(f"| {' | '.join(line)} |\n")
    return 0
