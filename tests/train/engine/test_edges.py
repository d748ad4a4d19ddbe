"""What real programs do that blocks in a row do not: buffers, old gradients, recomputation."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.ranks import run_ranks
from tests.train.engine.samples import (
    ODD_MODELS,
    WIDTH,
    Case,
    Layer,
    Stack,
    build,
    engine_config,
    inputs,
    train,
)
from zerosim.base.errors import ConfigError
from zerosim.trace import labels
from zerosim.train.engine import initialize
from zerosim.train.engine.optimizer import UnitOptimizer

STAGES = (0, 1, 2, 3)
NUM_RANKS = 2


class Spans:
    """A sink that remembers which computations were never ended."""

    def __init__(self):
        self.opened = []
        self.still_open = {}

    def open_compute(self, found, position):
        self.opened.append(found.unit)
        self.still_open[len(self.opened)] = f"{found.unit} in {position.phase}"
        return len(self.opened)

    def close_compute(self, event, error):
        del self.still_open[event]

    def __getattr__(self, name):
        return lambda *_: None


@pytest.fixture
def spans():
    sink = Spans()
    labels.attach(sink)
    yield sink
    labels.attach(None)


@pytest.mark.parametrize("stage", [0, 3])
@pytest.mark.parametrize("model", ODD_MODELS)
def test_every_computation_that_begins_ends(spans, model, stage):
    train(Case(model, engine_config(stage=stage), steps=2))
    assert not spans.still_open
    # forward, backward and update of each step, if the model has more than its root
    if model == "Stack":
        assert len(spans.opened) == 2 * 3 * 3


class LendsItsWeight(nn.Module):
    """Its child returns a view of its own weight, as some position embeddings do."""

    class Lender(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4096, WIDTH))

        def forward(self, count):
            return self.weight[:count]

    def __init__(self):
        super().__init__()
        self.position = self.Lender()
        self.layer = Layer()

    def forward(self, x):
        return self.layer(x + self.position(len(x))).square().mean()


def test_a_unit_that_returns_its_own_weights_is_refused_where_they_are_freed():
    x = torch.ones(4, WIDTH)
    with pytest.raises(ConfigError, match=r"^unit position returned its own weights[^\n]+$"):
        initialize(LendsItsWeight(), engine_config(stage=3))(x)
    losses = []
    for stage, units in ((0, ()), (2, ()), (3, ("layer",))):
        torch.manual_seed(0)
        engine = initialize(LendsItsWeight(), engine_config(stage=stage, units=units))
        for _ in range(2):
            loss = engine(x)
            engine.backward(loss)
            engine.step()
        losses.append(loss.item())
    assert losses[0] == losses[1] == losses[2]


class RecomputedTwice(Stack):
    """One block in two checkpoints of the kind that runs a backward inside the backward."""

    def body(self, x, iteration):
        x = self.blocks[0](x)
        for _ in range(2):
            x = checkpoint(self.blocks[1], x, use_reentrant=True)
        return self.blocks[2](x)


@pytest.mark.parametrize("stage", STAGES)
def test_a_gradient_that_comes_too_late_is_refused_and_not_lost(stage):
    engine = initialize(RecomputedTwice(), engine_config(stage=stage))
    loss = engine(torch.ones(4, WIDTH))
    with pytest.raises(ConfigError, match=r"unit blocks\.1 .*use_reentrant=False"):
        engine.backward(loss)


@pytest.mark.parametrize("stage", STAGES)
def test_gradients_from_before_the_engine_are_forgotten(stage):
    vectors, _ = inputs("Stack", 0, 1, 0, 0)
    weights = []
    for has_history in (False, True):
        model = build("Stack", 0)
        if has_history:
            model(vectors).backward()
        engine = initialize(model, engine_config(stage=stage))
        engine.backward(engine(vectors))
        engine.step()
        weights.append(engine.full_parameters())
    assert all(torch.equal(weights[1][name], weight) for name, weight in weights[0].items())


@pytest.mark.parametrize("stage", STAGES)
def test_two_forwards_before_a_backward(stage):
    weights = []
    for summed in (False, True):
        model = build("FrozenPartTwice", 0)
        engine = initialize(model, engine_config(stage=stage, epsilon=1e-3))
        halves = inputs("Stack", 0, 1, 0, 0)[0].chunk(2)
        batches = halves if summed else [torch.cat(halves)]
        engine.backward(sum(engine(batch) for batch in batches) / len(batches))
        engine.step()
        weights.append(engine.full_parameters())
    for name, weight in weights[0].items():
        assert torch.allclose(weights[1][name], weight, rtol=0, atol=1e-6), name


@pytest.mark.parametrize("stage", STAGES)
def test_another_learning_rate_counts_from_the_next_step_on(stage):
    engine = initialize(build("Stack", 0), engine_config(stage=stage))
    seen = [engine.full_parameters()]
    for rate in (0.0, 1e-3):
        engine.set_learning_rate(rate)
        engine.backward(engine(*inputs("Stack", 0, 1, 0, 0)))
        engine.step()
        seen.append(engine.full_parameters())
    name = "blocks.0.up.weight"
    assert torch.equal(seen[0][name], seen[1][name])
    assert (seen[2][name] - seen[1][name]).abs().max() == pytest.approx(1e-3, rel=1e-2)


@given(st.integers(1, 60), st.integers(1, 5), st.floats(0.1, 4.0), st.floats(0, 0.1))
def test_the_optimizer_on_rows_is_adamw_on_the_whole(columns, num_rows, factor, decay):
    config = engine_config(weight_decay=decay)
    generator = torch.Generator().manual_seed(columns)
    whole = torch.randn(num_rows, columns, generator=generator)
    expected = whole.clone()
    adam = torch.optim.AdamW([expected], lr=config.learning_rate, weight_decay=decay, foreach=False)
    optimizer = UnitOptimizer("all", list(whole), config, shared=list(whole))
    for _ in range(3):
        gradient = torch.randn(num_rows, columns, generator=generator)
        expected.grad = gradient * factor
        adam.step()
        optimizer.update(list(gradient), factor, list(whole))
    assert torch.allclose(whole, expected, rtol=1e-6, atol=1e-7)


# with other ranks


class Buffered(Stack):
    """A model with buffers of every kind, different on every rank."""

    def __init__(self, rank=0):
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)
        self.norm.running_mean.fill_(float(rank))
        self.norm.num_batches_tracked.fill_(10 * rank)
        self.register_buffer("mask", torch.arange(WIDTH) % 2 == rank % 2)
        self.register_buffer("table", torch.full((2, WIDTH), 0.5 + rank).t())
        self.register_buffer("nothing", torch.empty(0))

    def body(self, x, iteration):
        return self.norm(super().body(x * self.mask + self.table[:, 0], iteration))


class Chooses(Stack):
    """Which block computes depends on the rank."""

    def body(self, x, iteration):
        return self.blocks[iteration](x)


def _buffers(dtype, collectives):
    torch.manual_seed(0)
    model = Buffered(dist.get_rank())
    engine = initialize(model, engine_config(stage=3, dtype=dtype, collectives=collectives))
    start = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for step in range(3):
        engine.backward(engine(*inputs("Stack", dist.get_rank(), NUM_RANKS, step, 0)))
        engine.step()
    end = {name: buffer.clone() for name, buffer in model.named_buffers()}
    weights = engine.full_parameters()
    engine.close()
    return start, end, weights


def _choices(stage):
    torch.manual_seed(0)
    engine = initialize(Chooses(), engine_config(stage=stage, epsilon=1e-3))
    vectors, _ = inputs("Stack", dist.get_rank(), NUM_RANKS, 0, 0)
    engine.backward(engine(vectors, dist.get_rank()))
    engine.step()
    weights = engine.full_parameters()
    engine.close()
    return weights


def _most_whole_gradients(stage):
    """How many units have a whole gradient at once, in a model whose root has one until the end."""
    engine = initialize(build("gpt tied", 0), engine_config(stage=stage))
    counts = []

    def count(*_):
        counts.append(sum(flat.gradient is not None for flat in engine._units))

    for module in engine.model.modules():
        module.register_full_backward_hook(count)
    engine.backward(engine(*inputs("gpt tied", dist.get_rank(), NUM_RANKS, 0, 0)))
    engine.step()
    engine.close()
    return max(counts), len(engine._units)


def _all_edges():
    return {
        "buffers": {
            (dtype, kind): _buffers(dtype, kind)
            for dtype in ("fp32", "bf16")
            for kind in ("ring", "native")
        },
        "choices": [_choices(stage) for stage in (0, 1, 2)],
        "gradients": {stage: _most_whole_gradients(stage) for stage in (1, 2, 3)},
    }


@pytest.fixture(scope="module")
def edges():
    return run_ranks(_all_edges, NUM_RANKS)


def _average_step(model, losses):
    """One step of PyTorch's own AdamW on the mean of the ranks' losses."""
    adam = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3, weight_decay=0.0)
    sum(losses).div(len(losses)).backward()
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    adam.step()
    return dict(model.named_parameters())


@pytest.mark.ranks
@pytest.mark.parametrize("kind", ["ring", "native"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_buffers_start_as_rank_0_has_them_and_then_live_on_their_own(edges, dtype, kind):
    first = dict(Buffered(0).named_buffers())
    for rank, found in enumerate(edges):
        start, end, _ = found["buffers"][dtype, kind]
        assert start.keys() == first.keys()
        for name, buffer in first.items():
            expected = buffer
            if buffer.is_floating_point() and dtype == "bf16":
                expected = buffer.bfloat16()
            assert start[name].dtype == expected.dtype, name
            assert torch.equal(start[name], expected), (rank, name)
        # three forwards were counted, and the counter was not reset
        assert end["norm.num_batches_tracked"] == 3
        assert torch.equal(end["mask"], first["mask"])
    means = [found["buffers"][dtype, kind][1]["norm.running_mean"] for found in edges]
    assert not torch.equal(*means), "each rank has seen other data"
    ours, theirs = (found["buffers"][dtype, kind][2] for found in edges)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.ranks
def test_ranks_that_take_different_paths_train_as_one_process(edges):
    torch.manual_seed(0)
    model = Chooses()
    parts = [inputs("Stack", rank, NUM_RANKS, 0, 0)[0] for rank in range(NUM_RANKS)]
    expected = _average_step(model, [model(part, rank) for rank, part in enumerate(parts)])
    for found in edges:
        for stage, weights in enumerate(found["choices"]):
            for name, weight in weights.items():
                distance = (weight - expected[name]).abs().max()
                assert distance < 1e-6, (stage, name, distance)


@pytest.mark.ranks
@pytest.mark.parametrize("stage", [2, 3])
def test_a_tied_matrix_does_not_keep_the_other_gradients_alive(edges, stage):
    for found in edges:
        most, num_units = found["gradients"][stage]
        # the root's own, one on its way, one being computed
        assert most <= 3 < num_units
        # the embedding's comes after the last module's hook
        assert found["gradients"][1][0] == num_units - 1
