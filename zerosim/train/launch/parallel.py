"""A run in which T ranks compute each layer together: the groups, and the work of each rank.

    rank        0   1   2   3        with 4 ranks and T = 2
    tensor      0   1   0   1        position among those that compute together: 0, 1 and 2, 3
    data        0   0   1   1        position among those that read different data: 0, 2 and 1, 3

Ranks that compute together are neighbours, so that on several hosts they share one.
"""

from __future__ import annotations

from functools import cache

import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from zerosim.base.config import EngineConfig, ModelName, RunConfig
from zerosim.base.errors import ConfigError
from zerosim.train.collectives import RankGroup, world
from zerosim.train.engine.tensor_parallel import require_sound
from zerosim.train.models.catalogue import heads_of

_DATA, _TENSOR = "data", "tensor"


def data_group(run: RunConfig) -> RankGroup:
    """The ranks among which the engine divides its states: those with the same shards.

    The first call, on every rank, creates the groups; it must come before a trace begins.
    """
    if run.tensor_parallel == 1:
        return world()
    mesh = _mesh(run.device.value, run.ranks, run.tensor_parallel)[_DATA]
    process_group = mesh.get_group()
    ranks = tuple(dist.get_process_group_ranks(process_group))
    return RankGroup(mesh.get_local_rank(), ranks, process_group)


def divide(model: nn.Module, run: RunConfig) -> None:
    """Shard a model, which is the same on every rank, among those that compute together."""
    if run.tensor_parallel == 1:
        return
    from zerosim.train.models.parallel import divide_blocks

    mesh = _mesh(run.device.value, run.ranks, run.tensor_parallel)[_TENSOR]
    divide_blocks(model, mesh, source=None)


def forget() -> None:
    """Forget the groups, because the process has left them."""
    _mesh.cache_clear()


@cache
def _mesh(device: str, num_ranks: int, num_together: int) -> DeviceMesh:
    shape = (num_ranks // num_together, num_together)
    return init_device_mesh(device, shape, mesh_dim_names=(_DATA, _TENSOR))


def require_divisible(run: RunConfig, config: EngineConfig) -> None:
    """Check that the ranks can compute this model together, and train it as configured.

    Raises:
        ConfigError: they cannot.
    """
    together = run.tensor_parallel
    if together == 1:
        return
    if run.model is ModelName.MLP:
        raise ConfigError(
            f"tensor-parallel is {together} for the mlp, which has no blocks to shard: expected a "
            "GPT; try --model gpt-tiny"
        )
    if run.tiles > 1:
        raise ConfigError(
            f"tiles is {run.tiles} with {together} tensor parallel ranks, which shard the "
            "same matrices: give only one of tiles and tensor-parallel"
        )
    heads = heads_of(run.model, run.shape)
    if heads % together:
        raise ConfigError(
            f"tensor-parallel is {together}: expected a divisor of {run.model}'s {heads} heads"
        )
    require_sound(config, RankGroup(ranks=tuple(range(together))), RankGroup())
