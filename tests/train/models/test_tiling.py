"""Memory-centric tiling: the same layer in pieces, each a unit of the engine."""

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.ranks import run_ranks
from zerosim.analysis.memory import ROLES, timeline
from zerosim.base.config import DType, EngineConfig, ModelName
from zerosim.base.errors import ConfigError
from zerosim.record import load
from zerosim.schema.memory import Role
from zerosim.trace.blocks import default_blocks
from zerosim.trace.session import trace
from zerosim.train.collectives import RankGroup, world
from zerosim.train.engine import initialize
from zerosim.train.engine.units import partition
from zerosim.train.models import GPT, Batches, GPTConfig, build
from zerosim.train.models.tiling import SMALLEST_ELEMENTS, TiledLinear, tile_linears, tiled_units

TILES, STEPS, CONTEXT = 4, 3, 8
SMALL = GPTConfig(layers=1, width=32, heads=2, context=CONTEXT)
CUT = 3_000
"""The query, the key and the value together are 3,072 weights; what the heads say, 1,024."""


def small_gpt():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return GPT(SMALL)


def blocks_of(model):
    return [name for name, _ in default_blocks(model)]


# the layer


@given(
    inputs=st.integers(1, 40),
    outputs=st.integers(1, 40),
    data=st.data(),
    has_bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_outputs_differ_by_rounding_alone(inputs, outputs, data, has_bias, seed):
    tiles = data.draw(st.integers(1, outputs))
    torch.manual_seed(seed)
    linear = nn.Linear(inputs, outputs, bias=has_bias)
    x = torch.randn(3, 2, inputs)
    tiled = TiledLinear(linear, tiles)
    unit = (inputs + 1) * 2.0**-24
    with torch.no_grad():
        size = nn.functional.linear(
            x.abs().double(),
            linear.weight.abs().double(),
            linear.bias.abs().double() if has_bias else None,
        )
        distance = (tiled(x).double() - linear(x).double()).abs()
    assert (distance <= 2 * unit / (1 - unit) * size).all()
    sizes = [tile.out_features for tile in tiled.tiles]
    assert len(sizes) == tiles
    assert max(sizes) - min(sizes) <= 1
    assert torch.equal(torch.cat([tile.weight for tile in tiled.tiles]), linear.weight)


def test_gradients_are_those_of_the_layer():
    """In whole numbers, where nothing is rounded."""
    linear = nn.Linear(6, 7)
    with torch.no_grad():
        for parameter in linear.parameters():
            parameter.copy_(torch.randint(-9, 9, parameter.shape))
    x, sent = torch.randint(-9, 9, (5, 6)).float(), torch.randint(-9, 9, (5, 7)).float()
    tiled = TiledLinear(linear, 3)
    inputs = [x.clone().requires_grad_(), x.clone().requires_grad_()]
    for module, given_x in zip((linear, tiled), inputs, strict=True):
        module(given_x).backward(sent)
    assert torch.equal(inputs[0].grad, inputs[1].grad)
    for name in ("weight", "bias"):
        gradients = [getattr(tile, name).grad for tile in tiled.tiles]
        assert torch.equal(torch.cat(gradients), getattr(linear, name).grad)


# the model


def test_the_large_layers_of_a_model_are_cut():
    model = build(ModelName.GPT_TINY, 0)
    elements = sum(parameter.numel() for parameter in model.parameters())
    names = tile_linears(model, TILES)
    inner = ("attention.query_key_value", "mlp.0", "mlp.2")
    assert names == tuple(f"blocks.{block}.{name}" for block in range(4) for name in inner)
    assert elements == sum(parameter.numel() for parameter in model.parameters())
    assert all(
        module.weight.numel() < SMALLEST_ELEMENTS
        for module in model.modules()
        if type(module) is nn.Linear
    )


def test_a_tiled_model_guesses_as_the_whole_one():
    whole, tiled = small_gpt(), small_gpt()
    tile_linears(tiled, TILES, CUT)
    batch = Batches(seed=0, rank=0, num_ranks=1, batch=4, context=CONTEXT).at(0)
    torch.testing.assert_close(tiled(batch), whole(batch), rtol=1e-6, atol=0)


def test_units_are_the_tiles_and_what_is_beside_them():
    model = small_gpt()
    blocks = blocks_of(model)
    assert tiled_units(model, blocks) == ("embedding", "blocks.0", "head")
    tile_linears(model, 2, CUT)
    units = tiled_units(model, blocks)
    assert {unit.name for unit in partition(model, 2, units)} == set(units)  # no root
    assert units == (
        "embedding",
        "blocks.0.attention_norm",
        "blocks.0.attention.query_key_value.tiles.0",
        "blocks.0.attention.query_key_value.tiles.1",
        "blocks.0.attention.output",
        "blocks.0.mlp_norm",
        "blocks.0.mlp.0.tiles.0",
        "blocks.0.mlp.0.tiles.1",
        "blocks.0.mlp.2.tiles.0",
        "blocks.0.mlp.2.tiles.1",
        "head.norm",
        "head.linear.tiles.0",
        "head.linear.tiles.1",
    )


def test_what_is_left_whole():
    class Own(nn.Linear):
        """Someone may use its weight without calling it."""

    model = nn.ModuleDict({"own": Own(9, 9), "a": nn.Linear(9, 9), "b": nn.Linear(9, 9)})
    model["b"].weight = model["a"].weight
    model["small"] = nn.Linear(2, 2)
    with pytest.raises(ConfigError, match=r"no linear layer of ModuleDict has 81 weights or more"):
        tile_linears(model, 2, 81)
    assert tile_linears(model, 1, 81) == ()


def test_a_layer_that_stands_in_two_places_is_cut_once():
    layer = nn.Linear(9, 9)
    model = nn.Sequential(layer, nn.Tanh(), layer)
    assert tile_linears(model, 3, 81) == ("0",)
    assert model[0] is model[2]
    assert isinstance(model[0], TiledLinear)


def test_frozen_weights_stay_frozen():
    model = nn.Sequential(nn.Linear(9, 9))
    model[0].weight.requires_grad_(requires_grad=False)
    tile_linears(model, 3, 81)
    assert [p.requires_grad for p in model[0].tiles[0].parameters()] == [False, True]


def test_more_tiles_than_outputs():
    with pytest.raises(ConfigError, match=r"tiles is 10: expected at most 9, the outputs of 0$"):
        tile_linears(nn.Sequential(nn.Linear(20, 9)), 10, 81)


# training


class Layer(nn.Module):
    """Two matrices of 64 x 128, without biases."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(64, 128, bias=False)
        self.down = nn.Linear(128, 64, bias=False)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


class Stack(nn.Module):
    """Its shards are multiples of 64 elements: the optimizer rounds what is left over differently,
    and how much that is depends on the number of ranks.
    """

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        y = x
        for block in self.blocks:
            y = block(y)
        return (y - x.flip(1)).square().mean()


def _train(group, tiles, *, alone=False):
    """Train as one of two ranks; alone, a step has a micro-step with each rank's batch."""
    torch.manual_seed(0)
    model = Stack()
    blocks = blocks_of(model)
    tile_linears(model, tiles, 64 * 128)
    units = tiled_units(model, blocks)
    config = EngineConfig(stage=3, dtype=DType.FP32, prefetch=0, units=units, accumulate=1 + alone)
    engine = initialize(model, config, group)
    losses = []
    for step in range(STEPS):
        own = []
        for rank in (0, 1) if alone else (group.rank,):
            batch = torch.randn(4, 64, generator=torch.Generator().manual_seed(10 * step + rank))
            loss = engine(batch)
            engine.backward(loss)
            own.append(loss.item())
            if engine.is_boundary:
                losses.append(engine.average_loss(sum(own) / len(own)))
            engine.step()
    weights = engine.full_parameters()
    engine.close()
    return losses, weights


def _train_all(folder):
    """Each model by both ranks, and by rank 0 alone, which takes the other's batches as well."""
    found = {}
    for tiles in (1, TILES):
        with trace(folder / str(tiles)):
            shared = _train(world(), tiles)
        alone = _train(RankGroup(), tiles, alone=True) if dist.get_rank() == 0 else None
        found[tiles] = (shared, alone)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiled")
    return folder, run_ranks(_train_all, 2, folder)[0]


@pytest.mark.ranks
def test_two_ranks_train_a_tiled_model_as_one_process_does(trained):
    _, found = trained
    for tiles, (shared, alone) in found.items():
        assert shared[0] == alone[0], f"losses with {tiles} tiles"
        assert shared[1].keys() == alone[1].keys()
        for name, weight in shared[1].items():
            assert torch.equal(weight, alone[1][name]), name
    assert found[1][0][0] == pytest.approx(found[TILES][0][0], rel=1e-5)
    assert found[1][0][0][-1] < found[1][0][0][0]


@pytest.mark.ranks
@pytest.mark.parametrize("rank", [0, 1])
def test_no_more_is_gathered_than_a_tile(trained, rank):
    """Without prefetch; in fp32, of 4 bytes."""
    folder, _ = trained
    peaks = {}
    for tiles in (1, TILES):
        gathered = timeline(load(folder / str(tiles)).ranks[rank]).by_role
        peaks[tiles] = int(gathered[ROLES.index(Role.GATHERED)].max())
    assert peaks == {1: 4 * 2 * 64 * 128, TILES: 4 * 64 * 128 // TILES}
