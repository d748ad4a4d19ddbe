"""A plan's formulas, held against dry runs of the same layouts: time, and what is held."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from zerosim.analysis import TimeCause
from zerosim.analysis.memory import ROLES, timeline
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.base.config.shapes import GPTConfig, LlamaConfig, shape_of
from zerosim.predict.placement.machine import load_machine
from zerosim.predict.plan.prices import Prices
from zerosim.predict.plan.schedule import TimeCategory, step_times
from zerosim.predict.simulate import simulate_job
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.theory.footprint import footprints
from zerosim.theory.layout import Layout
from zerosim.theory.operators import Computing
from zerosim.theory.saved import KeptActivations, Recompute
from zerosim.theory.transformer import BLOCK, EMBEDDING, HEAD, LayerCut
from zerosim.train.launch.job import Job
from zerosim.view.reading import load

MACHINE = "dgx-h100"
TOLERANCE, WITH_BUCKETS, WITH_TENSOR, IN_BLOCKS = 0.01, 0.03, 0.03, 0.001
"""Of a step's time; docs/plan.md states them."""
CASES = {
    "data parallel": (16, {"stage": 0, "accumulate": 2}),
    "ZeRO-2, buckets": (16, {"stage": 2, "accumulate": 2, "bucket_elements": 20_000_000}),
    "ZeRO-3, all on the host": (
        64,
        {"stage": 3, "offload_optimizer": "cpu", "offload_param": "cpu"},
    ),
    "ZeRO-3, computed again": (64, {"stage": 3, "accumulate": 3, "checkpoint_activations": True}),
}


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    """A dry run of gpt-2, and its layout; four blocks do where the whole is not cut in buckets."""
    num_ranks, options = CASES[request.param]
    config = EngineConfig(collectives="native", **options)
    folder = tmp_path_factory.mktemp("dry") / "run"
    layers = 12 if config.bucket_elements else 4
    run = RunConfig(model="gpt-2", layers=layers, ranks=num_ranks, batch=1, steps=2)
    simulate_job(Job(run, ((config, folder),)), MACHINE)
    recompute = Recompute.FULL if config.checkpoint_activations else Recompute.NONE
    shape = replace(shape_of("gpt-2"), layers=layers)
    layout = Layout(
        shape=shape,
        config=config,
        data=num_ranks,
        batch=1,
        sequence=shape.context,
        ranks_per_node=8,
        keeping=KeptActivations(recompute),
    )
    return load(folder), layout


@pytest.mark.ranks
def test_a_step_takes_as_long(both):
    run, layout = both
    took = run.graph_report(iteration=1).path.duration_ns
    prices = Prices(load_machine(MACHINE))
    # no unit of a dry run has the loss
    prices.loss = lambda _: 0.0
    found = sum(step_times(prices, layout).values())
    tolerance = WITH_BUCKETS if layout.config.bucket_elements else TOLERANCE
    assert found == pytest.approx(took, rel=tolerance)


@pytest.mark.ranks
@pytest.mark.parametrize(("accumulate", "recomputed"), [(1, 0), (1, 1), (3, 1)])
def test_gathers_that_take_longer_than_computing(tmp_path, accumulate, recomputed):
    """Of 174.6 B parameters on 768 GPUs a few blocks, as published steps are predicted.

    A first step gathers nothing ahead in forward, so it is not the one that a plan is held against.
    """
    gpus, machine = 768, load_machine("zero-3-2021")
    engine = EngineConfig(
        stage=3,
        dtype="bf16",
        collectives="native",
        accumulate=accumulate,
        checkpoint_activations=bool(recomputed),
    )
    run = RunConfig(
        model="gpt-3",
        ranks=gpus,
        steps=2,
        batch=2,
        memory=False,
        layers=5,
        context_length=2048,
        vocabulary=51200,
    )
    simulate_job(Job(run, ((engine, tmp_path / "run"),)), machine.name)
    took = load(tmp_path / "run").graph_report(iteration=1).path.duration_ns / 1e9
    layout = Layout(
        shape=GPTConfig(layers=5, width=12288, heads=96, context=2048, vocabulary=51200, tied=True),
        config=engine,
        data=gpus,
        batch=2,
        sequence=2048,
        ranks_per_node=8,
        keeping=KeptActivations(Recompute.FULL if recomputed else Recompute.NONE),
    )
    prices = Prices(machine)
    prices.loss = lambda _: 0.0
    times = step_times(prices, layout)
    assert times[TimeCategory.NETWORK] > sum(times.values()) / 3, "the program waits much"
    assert sum(times.values()) / 1e9 == pytest.approx(took, rel=IN_BLOCKS)


@pytest.mark.ranks
def test_ranks_that_compute_blocks_together(tmp_path):
    """Sums lie between the parts of a block: nothing of it is computed meanwhile."""
    given = {"layers": 2, "width": 1024, "heads": 16, "context_length": 512, "vocabulary": 1000}
    run = RunConfig(model="gpt-3", ranks=4, tensor_parallel=4, batch=4, steps=2, **given)
    config = EngineConfig(collectives="native", stage=0)
    simulate_job(Job(run, ((config, tmp_path / "run"),)), MACHINE)
    report = load(tmp_path / "run").graph_report(iteration=1)
    took = report.path.by_cause()
    layout = Layout(
        shape=GPTConfig(layers=2, width=1024, heads=16, context=512, vocabulary=1000, tied=True),
        config=config,
        data=1,
        cut=LayerCut(tensor=4, sequence=False, ends=False),
        batch=4,
        sequence=512,
        ranks_per_node=8,
        keeping=KeptActivations(Recompute.NONE),
    )
    found = step_times(Prices(load_machine(MACHINE)), layout)
    assert found[TimeCategory.NODE] == pytest.approx(took[TimeCause.COMMUNICATION], rel=TOLERANCE)
    assert sum(found.values()) == pytest.approx(report.path.duration_ns, rel=WITH_TENSOR)


@pytest.mark.ranks
def test_what_is_held(both):
    """Model states and gathered units to the byte; activations but for a norm's statistics."""
    run, layout = both
    line = timeline(run.trace.ranks[0])
    last = [number for number, one in enumerate(line.samples) if one.iteration == 1]
    most = {role: int(line.by_role[row][last].max()) for row, role in enumerate(ROLES)}
    predicted = {}
    for moment in footprints(layout):
        sizes = {}
        for part in moment.parts:
            sizes[part.role] = sizes.get(part.role, 0) + part.bytes
        for role, size in sizes.items():
            predicted[role] = max(predicted.get(role, 0), size)
    for role in (*MODEL_STATES, Role.GATHERED, Role.CHECKPOINTS):
        if role is not Role.GRADIENTS:
            assert predicted.get(role, 0) == most.get(role, 0), role
    # a law says how much may be there at once, and the run need not get that far
    assert most[Role.GRADIENTS] <= predicted[Role.GRADIENTS]
    beside = most[Role.ACTIVATIONS] - predicted[Role.ACTIVATIONS]
    assert 0 <= beside <= 0.001 * most[Role.ACTIVATIONS]


def test_flops_are_those_that_pytorch_counts():
    from zerosim.train.models.gpt import GPT
    from zerosim.train.models.llama import Llama

    llama = LlamaConfig(
        layers=2, width=64, heads=4, key_heads=2, hidden=96, context=16, vocabulary=50
    )
    gpt = shape_of("gpt-tiny")
    for shape, model in ((llama, Llama(llama)), (gpt, GPT(gpt))):
        computing = Computing(shape, 3, shape.context, element_bytes=4)
        tokens = torch.zeros((3, shape.context + 1), dtype=torch.int64)
        with FlopCounterMode(display=False) as counter:
            model(tokens)
        counts = {EMBEDDING: 1, BLOCK: shape.layers, HEAD: 1}
        expected = sum(
            count * one.calls * one.flops
            for name, count in counts.items()
            for one in computing.forward(name)
        )
        # attention's kernel for a CPU has no formula in PyTorch
        attention = 4 * 3 * shape.context**2 * shape.width * shape.layers
        assert counter.get_total_flops() in {expected, expected - attention}
