"""Gradients in memory of their own, buckets in buffers of constant size: the same training."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from tests.ranks import run_ranks
from tests.train.engine.samples import build, engine_config, inputs
from zerosim.schema.memory import Role
from zerosim.trace.holdings import hold, holdings
from zerosim.train.device import ALIGNMENT_BYTES, DeviceMemory
from zerosim.train.engine import initialize
from zerosim.train.engine.contiguous import Arena

CPU = torch.device("cpu")


# an arena


def test_a_piece_is_a_storage_of_its_own_in_the_arenas_memory():
    arena = Arena(CPU, Role.GRADIENTS)
    arena.reserve(4 * ALIGNMENT_BYTES)
    first, second = (arena.take((3, 5), torch.float32) for _ in range(2))
    assert second.data_ptr() - first.data_ptr() == ALIGNMENT_BYTES
    assert first.is_contiguous()
    assert first.shape == (3, 5)
    hold(first, Role.GRADIENTS, "blocks.0")
    held = holdings.get(first.untyped_storage())
    assert held is not None
    assert held.bytes() == 3 * 5 * 4
    first.fill_(1.0)
    second.fill_(2.0)
    assert first.sum() == 15
    assert arena.take((0, 5), torch.float32).shape == (0, 5)


def test_a_place_is_free_again_when_nobody_holds_the_piece():
    arena = Arena(CPU, Role.CHECKPOINTS)
    arena.reserve(2 * ALIGNMENT_BYTES)
    piece = arena.take((8,), torch.bfloat16)
    view, address = piece[2:], piece.data_ptr()
    del piece
    assert arena.used_bytes == ALIGNMENT_BYTES
    del view
    assert arena.used_bytes == 0
    assert arena.take((2 * ALIGNMENT_BYTES,), torch.uint8).data_ptr() == address


def test_an_arena_that_is_full_grows_and_outlives_its_owner():
    arena = Arena(CPU, Role.CHECKPOINTS)
    pieces = [arena.take((100,), torch.float32) for _ in range(3)]
    assert arena.reserved_bytes == arena.used_bytes == 3 * ALIGNMENT_BYTES
    del pieces[1:]
    again = [arena.take((100,), torch.float32) for _ in range(2)]
    assert arena.reserved_bytes == 3 * ALIGNMENT_BYTES
    del arena
    again[0].fill_(1.0)
    assert again[0].sum() == 100


def test_on_a_device_with_a_limit_an_arena_is_one_block():
    with DeviceMemory(16 * ALIGNMENT_BYTES) as memory:
        arena = Arena(CPU, Role.CHECKPOINTS)
        arena.reserve(8 * ALIGNMENT_BYTES)
        pieces = [arena.take((1,), torch.float32) for _ in range(3)]
        assert memory.used_bytes == 8 * ALIGNMENT_BYTES
        assert memory.places.used_bytes_by_role() == {Role.CHECKPOINTS: 8 * ALIGNMENT_BYTES}
        del pieces, arena
        assert memory.used_bytes == 0


# training

STEPS = 2
FUSED = 200
"""Elements of a bucket: the blocks of a Stack have 91, so two pieces and more in each."""
MODELS = ("Stack", "Tied", "FrozenFirst")


def _train(model, **options):
    """Losses, final parameters, and what the engine held: grown arenas and buffers."""
    config = engine_config(accumulate=2, **options)
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    engine = initialize(build(model, rank), config)
    arena = engine._units[0].arena
    planned = arena.reserved_bytes if arena else 0
    losses = []
    for step in range(STEPS):
        for micro_step in range(2):
            loss = engine(*inputs(model, rank, num_ranks, step, micro_step))
            engine.backward(loss)
            losses.append(loss.item())
            engine.step()
    parameters = {name: value.tolist() for name, value in engine.full_parameters().items()}
    engine.close()
    buffers = engine._context.buffers
    assert bool(buffers and buffers._filled) == config.constant_buffers
    assert (arena.reserved_bytes if arena else 0) == planned, "the arena was planned too small"
    return losses, parameters


def _train_all(more):
    """Which runs differ from those with neither, by model and stage."""
    differ = []
    for model in MODELS[:1] if more else MODELS:
        # apart for the first model, together for all
        ways = [{"contiguous_memory": True, "constant_buffers": True}]
        if model == MODELS[0]:
            ways += [{"contiguous_memory": True}, {"constant_buffers": True}]
        for stage in (1, 2, 3) if more else range(4):
            options = {"stage": stage, "bucket_elements": FUSED} | more
            expected = _train(model, **options)
            differ += [
                (model, stage, way) for way in ways if _train(model, **options, **way) != expected
            ]
    return differ


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("num_ranks", "more"),
    [
        pytest.param(2, {}, id="two ranks"),
        pytest.param(2, {"offload_optimizer": "cpu"}, id="offloaded"),
        pytest.param(4, {}, id="four ranks", marks=pytest.mark.long),
    ],
)
def test_it_trains_to_the_same_bits(num_ranks, more):
    assert run_ranks(_train_all, num_ranks, more) == [[]] * num_ranks
