"""What needs no other rank: units, buckets, scaling, clipping."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.train.engine import samples
from zerosim.base.config import EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.theory import UnitSize, cut_buckets, padded_elements
from zerosim.train.collectives import RankGroup
from zerosim.train.engine.buckets import plan_buckets
from zerosim.train.engine.flat import FlatUnit, UnitState
from zerosim.train.engine.loss_scaling import LossScaler, clip_factor, squared_norm
from zerosim.train.engine.units import ROOT, partition


class Sized(nn.Module):
    """Blocks of given sizes; a frozen one where its size is negative."""

    def __init__(self, sizes):
        super().__init__()
        self.blocks = nn.ModuleList()
        for size in sizes:
            block = nn.Module()
            block.weight = nn.Parameter(torch.arange(float(abs(size))), requires_grad=size > 0)
            self.blocks.append(block)


sizes = st.lists(st.integers(-40, 40).filter(bool), min_size=1, max_size=6)
ranks = st.integers(1, 8)


def flat_units(model, num_ranks, rank=0):
    units = partition(model, num_ranks)
    flats = [FlatUnit(u, num_ranks, rank, torch.float32, torch.device("cpu")) for u in units]
    for flat in flats:
        flat.materialize()
    return flats


@given(sizes, ranks, st.none() | st.integers(1, 200))
def test_buckets_are_cut_as_theory_says(block_sizes, num_ranks, bucket_elements):
    units = flat_units(Sized(block_sizes), num_ranks)
    expected = cut_buckets(
        tuple(UnitSize(u.name, u.unit.elements, u.unit.trainable) for u in units),
        num_ranks,
        bucket_elements,
    )
    assert tuple(plan_buckets(units, num_ranks, bucket_elements)) == tuple(expected)


@given(sizes, ranks)
def test_a_unit_is_padded_as_theory_says_and_keeps_every_value(block_sizes, num_ranks):
    model = Sized(block_sizes)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    for flat in flat_units(model, num_ranks):
        layout = flat.unit.layout(num_ranks)
        assert layout.padded_elements == padded_elements(flat.unit.elements, num_ranks)
        assert flat.flat.numel() == layout.padded_elements
        assert flat.rows.shape == (num_ranks, layout.padded_elements // num_ranks)
        assert not flat.flat[flat.unit.elements :].any()
        for slot in flat.unit.slots:
            assert torch.equal(slot.parameter, before[slot.name])
            own, whole = slot.parameter.untyped_storage(), flat.flat.untyped_storage()
            assert own.data_ptr() == whole.data_ptr()


@given(sizes, ranks, st.data())
def test_sharding_and_unsharding_brings_every_value_back(block_sizes, num_ranks, data):
    model = Sized(block_sizes)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    rank = data.draw(st.integers(0, num_ranks - 1))
    for flat in flat_units(model, num_ranks, rank):
        whole = flat.flat.clone().view(num_ranks, -1)
        flat.free_parameters()
        assert flat.state is UnitState.SHARDED
        assert flat.flat.untyped_storage().nbytes() == 0
        assert all(slot.parameter.numel() == 0 for slot in flat.unit.slots)
        flat.allocate_parameters()
        flat.rows.copy_(whole)
        flat.show_parameters()
        assert flat.state is UnitState.UNSHARDED
        for slot in flat.unit.slots:
            assert torch.equal(slot.parameter, before[slot.name])


def names(model, patterns=()):
    return [unit.name for unit in partition(model, 2, patterns)]


def test_units_are_blocks_and_the_rest_is_root():
    assert names(samples.gpt()) == ["embedding", "blocks.0", "blocks.1", "head"]
    tied = names(samples.gpt(tied=True))
    assert tied == [ROOT, "embedding", "blocks.0", "blocks.1", "head"]
    assert names(samples.RootParameters())[0] == ROOT
    assert names(samples.NoBlocks()) == [ROOT]
    nested = names(samples.NestedContainers())
    assert nested == [ROOT, *(f"{p}blocks.{i}" for p in ("", "trunk.") for i in range(3)),
                      "last.0", "last.2"]  # fmt: skip
    first_frozen = names(samples.FrozenFirst())
    assert first_frozen == [f"blocks.{i}{s}" for i in range(3) for s in ("", ".frozen")]


def test_what_a_module_outside_of_all_units_holds_as_well_is_root():
    model = nn.Module()  # as GPT-2's: the head is a unit, the embedding is none
    model.transformer = nn.Module()
    model.transformer.wte = nn.Embedding(5, 3)
    model.transformer.h = nn.ModuleList([nn.Linear(3, 3)])
    model.lm_head = nn.Linear(3, 5, bias=False)
    model.lm_head.weight = model.transformer.wte.weight
    assert names(model) == [ROOT, "transformer.h.0"]


def test_patterns_choose_units():
    assert names(samples.gpt(), ("blocks.*",)) == [ROOT, "blocks.0", "blocks.1"]
    assert names(samples.gpt(), ("blocks.1", "head")) == [ROOT, "blocks.1", "head"]


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        (("layers.*",), "no module matches the unit pattern 'layers.*'"),
        (("blocks",), "blocks is a ModuleList, which has no forward of its own: give blocks.*"),
        (("blocks.*", "blocks.0.mlp"), "unit blocks.0.mlp is inside unit blocks.0"),
    ],
)
def test_patterns_that_do_not_work(patterns, words):
    with pytest.raises(ConfigError, match=r"^[^\n]+$") as caught:
        names(samples.gpt(), patterns)
    assert words in str(caught.value)


def test_parameters_that_are_no_floats():
    model = nn.Module()
    model.counts = nn.Parameter(torch.arange(3), requires_grad=False)
    with pytest.raises(ConfigError, match=r"parameter counts has dtype torch\.int64"):
        names(model)


def scaler(**changes):
    return LossScaler(EngineConfig(dtype="fp16", initial_loss_scale=8.0, **changes))


def test_the_scale_halves_at_an_overflow_and_doubles_after_a_while():
    loss_scaler = scaler(loss_scale_interval=2)
    seen = []
    for overflowed in (True, False, False, False, True, False, False):
        loss_scaler.update(overflowed=overflowed)
        seen.append(loss_scaler.scale)
    assert seen == [4, 4, 8, 8, 4, 4, 8]


def test_the_scale_never_falls_below_one():
    loss_scaler = scaler()
    for _ in range(9):
        loss_scaler.update(overflowed=True)
    assert loss_scaler.scale == 1.0


def test_only_fp16_is_scaled():
    loss_scaler = LossScaler(EngineConfig(dtype="bf16"))
    loss_scaler.update(overflowed=True)
    assert (loss_scaler.scale, loss_scaler.scales) == (1.0, False)


@given(st.floats(0, 1e6), st.none() | st.floats(1e-3, 1e6))
def test_clipping_leaves_a_norm_that_is_allowed(norm, largest):
    factor = clip_factor(norm, largest)
    assert 0 < factor <= 1
    if largest is None or norm <= largest:
        assert factor == 1
    else:
        assert norm * factor == pytest.approx(largest)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_bad_element_makes_the_norm_bad(bad):
    row = torch.ones(9, dtype=torch.float16)
    row[4] = bad
    assert not math.isfinite(squared_norm([torch.ones(3), row]))
    assert squared_norm([torch.ones(3), torch.full((4,), 2.0)]) == pytest.approx(19.0)


def test_a_group_of_one_has_itself_as_neighbour():
    assert (RankGroup().next, RankGroup().previous, RankGroup().size) == (0, 0, 1)
