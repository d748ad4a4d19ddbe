"""Why a dry run's peak is another than a plan's: each part, held against dry runs to the byte."""

from __future__ import annotations

import json

import pytest

from zerosim.analysis.memory import ROLES, timeline
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.config.huggingface import architecture
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan import PlanQuestion, predict
from zerosim.predict.plan.dry import dry_peak
from zerosim.predict.plan.prices import Beliefs
from zerosim.predict.simulate import simulate_job
from zerosim.schema.memory import Role
from zerosim.theory.layout import Layout
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.train.launch.job import Job
from zerosim.view.reading import load

MACHINE, RANKS, BATCH = "dgx-h100", 8, 2
LOSS = 20
"""Bytes of the loss's own scalars, which nothing counts."""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 4000,
    "max_position_embeddings": 2048,
}
GPT = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 4,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50_257,
}
CASES = {
    "Llama": (LLAMA, {"stage": 3}),
    "Llama, ZeRO-2": (LLAMA, {"stage": 2}),
    "Llama, data parallel, twice": (LLAMA, {"stage": 0, "accumulate": 2}),
    "Llama, blocks made again": (
        {**LLAMA, "vocab_size": 40_000},
        {"stage": 3, "checkpoint_activations": True},
    ),
    "Llama, tied": ({**LLAMA, "tie_word_embeddings": True}, {"stage": 3}),
    "Llama, heads of another size": ({**LLAMA, "head_dim": 64}, {"stage": 3}),
    "Qwen2": ({**LLAMA, "model_type": "qwen2"}, {"stage": 3}),
    "Qwen3": ({**LLAMA, "model_type": "qwen3"}, {"stage": 3}),
    "GPT, tied": (GPT, {"stage": 3}),
    "GPT, blocks made again, twice": (
        GPT,
        {"stage": 3, "accumulate": 2, "checkpoint_activations": True},
    ),
    "GPT": ({**GPT, "tie_word_embeddings": False}, {"stage": 2, "accumulate": 2}),
}


def predicted_of(given, config):
    shape, machine = architecture(given), load_machine(MACHINE)
    recompute = Recompute.FULL if config.checkpoint_activations else Recompute.NONE
    layout = Layout(
        shape=shape,
        config=config,
        data=RANKS,
        batch=BATCH,
        sequence=shape.context,
        ranks_per_node=RANKS,
        keeping=KeptActivations(recompute),
    )
    question = PlanQuestion(
        model="config.json",
        shape=shape,
        machine=machine,
        gpus=RANKS,
        sequences=RANKS * BATCH * config.accumulate,
        sequence=shape.context,
        asked_tokens=layout.tokens,
    )
    return predict(Beliefs(machine), question, layout)


@pytest.mark.ranks
@pytest.mark.parametrize("name", CASES)
def test_the_peak_of_a_dry_run(name, tmp_path):
    given, options = CASES[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    config = EngineConfig(collectives="native", **options)
    run = RunConfig(model=str(path), ranks=RANKS, batch=BATCH, steps=2)
    simulate_job(Job(run, ((config, tmp_path / "run"),)), MACHINE)
    line = timeline(load(tmp_path / "run").trace.ranks[0])
    last = [number for number, one in enumerate(line.samples) if one.iteration == 1]
    counted = [row for row, role in enumerate(ROLES) if role is not Role.BUFFERS]
    most = max(sum(int(line.by_role[row][number]) for row in counted) for number in last)
    found = dry_peak(predicted_of(given, config))
    assert found is not None
    assert most == found.bytes + LOSS


def test_the_parts_lead_from_the_plan_to_the_dry_run():
    config = EngineConfig(collectives="native", stage=3)
    one = predicted_of(LLAMA, config)
    found = dry_peak(one)
    assert found is not None
    less = found.scores + found.table + found.margin
    assert one.footprint.bytes + found.kept - less + found.moment == found.bytes
    assert found.scores == 6 * BATCH * 2048 * 4000


@pytest.mark.parametrize(
    ("stage", "options"),
    [
        (2, {"offload_optimizer": "cpu"}),
        (3, {"quantize_weights": True, "collectives": "ring"}),
        (2, {"bucket_elements": 10**6}),
        (3, {"checkpoint_activations": True}),  # its peak is in a block's backward
    ],
)
def test_nothing_is_said_where_it_is_not_exact(stage, options):
    config = EngineConfig(**{"collectives": "native", "stage": stage} | options)
    assert dry_peak(predicted_of(LLAMA, config)) is None
