"""Random models: shapes, ties, frozen parts, ranks and options drawn at random."""

from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

from tests.ranks import run_ranks
from zerosim.base.config import EngineConfig
from zerosim.train.engine import initialize

pytestmark = pytest.mark.ranks

STAGES = (0, 1, 2, 3)
STEPS = 3
LARGE_EPSILON = 1e-3


@dataclass(frozen=True)
class Drawn:
    """A model and the way in which it is trained.

    Attributes:
        widths: of the layers, first to last; input and output included.
        ties: pairs of layers of which the second uses the first's matrix, where they fit.
        frozen: layers whose matrix, bias, or both learn nothing.
    """

    widths: tuple[int, ...]
    ties: tuple[tuple[int, int], ...]
    frozen: tuple[tuple[int, str], ...]
    bucket_elements: int | None
    accumulate: int
    prefetch: int
    overlap: bool
    clip: float | None


class Layers(nn.Module):
    """Linear layers, one after another."""

    def __init__(self, drawn):
        super().__init__()
        pairs = list(zip(drawn.widths, drawn.widths[1:], strict=False))
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairs)
        for first, second in drawn.ties:
            if pairs[first % len(pairs)] == pairs[second % len(pairs)]:
                tied = self.layers[first % len(pairs)].weight
                self.layers[second % len(pairs)].weight = tied
        for place, what in drawn.frozen:
            # the last bias always learns, so that there is something to train
            layer = self.layers[place % len(pairs)]
            if what != "bias":
                layer.weight.requires_grad_(requires_grad=False)
            if what != "weight" and layer is not self.layers[-1]:
                layer.bias.requires_grad_(requires_grad=False)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x.square().mean()


def make(drawn):
    torch.manual_seed(0)
    return Layers(drawn)


def batch(drawn, rank, step, micro_step):
    generator = torch.Generator().manual_seed(1 + micro_step + 10 * (rank + 10 * step))
    return torch.randn(3, drawn.widths[0], generator=generator)


def train(drawn, stage):
    config = EngineConfig(
        stage=stage,
        dtype="fp32",
        epsilon=LARGE_EPSILON,
        bucket_elements=drawn.bucket_elements,
        accumulate=drawn.accumulate,
        prefetch=drawn.prefetch,
        overlap=drawn.overlap,
        clip=drawn.clip,
    )
    engine = initialize(make(drawn), config)
    for step in range(STEPS):
        for micro_step in range(drawn.accumulate):
            engine.backward(engine(batch(drawn, dist.get_rank(), step, micro_step)))
            engine.step()
    weights = engine.full_parameters()
    engine.close()
    return weights


def train_all(many):
    return [[train(drawn, stage) for stage in STAGES] for drawn in many]


def oracle(drawn, num_ranks):
    model = make(drawn)
    learning = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(learning, lr=1e-3, eps=LARGE_EPSILON, weight_decay=0.0)
    for step in range(STEPS):
        adam.zero_grad()
        for micro_step in range(drawn.accumulate):
            parts = [batch(drawn, rank, step, micro_step) for rank in range(num_ranks)]
            (model(torch.cat(parts)) / drawn.accumulate).backward()
        if drawn.clip is not None:
            nn.utils.clip_grad_norm_(learning, drawn.clip)
        adam.step()
    return dict(model.named_parameters())


widths = st.lists(st.integers(1, 9), min_size=2, max_size=5).map(tuple)
places = st.integers(0, 3)
cases = st.builds(
    Drawn,
    widths=widths | st.integers(2, 5).map(lambda width: (width,) * 4),
    ties=st.lists(st.tuples(places, places), max_size=2).map(tuple),
    frozen=st.lists(st.tuples(places, st.sampled_from(["weight", "bias", "both"])), max_size=2).map(
        tuple
    ),
    bucket_elements=st.none() | st.integers(1, 60),
    accumulate=st.integers(1, 3),
    prefetch=st.integers(0, 3),
    overlap=st.booleans(),
    clip=st.none() | st.sampled_from([1e-3, 0.1]),
)


@pytest.mark.parametrize("num_ranks", [pytest.param(2, marks=pytest.mark.long), 3])
@settings(
    max_examples=2,  # the first is always the simplest, eight times over
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
@given(many=st.lists(cases, min_size=8, max_size=8))
def test_drawn_models_train_as_in_one_process(num_ranks, many):
    many = list(dict.fromkeys(many))
    outcomes = run_ranks(train_all, num_ranks, many)
    for place, drawn in enumerate(many):
        expected = oracle(drawn, num_ranks)
        for rank, of_rank in enumerate(outcomes):
            for stage, weights in enumerate(of_rank[place]):
                # stages 2 and 3 add micro-steps after reducing, 0 and 1 before
                reference = stage // 2 * 2 if drawn.accumulate > 1 else 0
                for name, weight in weights.items():
                    same = outcomes[0][place][reference][name]
                    assert torch.equal(weight, same), (drawn, stage, rank, name)
                    distance = (weight - expected[name]).abs().max()
                    assert distance < 2e-6, (drawn, stage, name, distance)
