"""Tensor parallelism of a GPT: each block's matrices are sharded as in Megatron-LM.

Source: Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3: the first matrix of attention
and of the MLP by columns, the second by rows. Other layers (norms, embedding, head) are replicated
on every rank. The package does not import this module, because DTensor is slow to import.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    parallelize_module,
)

from zerosim.base.errors import ConfigError
from zerosim.train.models.gpt import GPT

PLAN: dict[str, type[ColwiseParallel | RowwiseParallel]] = {
    "attention.query_key_value": ColwiseParallel,
    "attention.output": RowwiseParallel,
    "mlp.0": ColwiseParallel,
    "mlp.2": RowwiseParallel,
}
"""The sharding of each matrix of a block."""


def divide_blocks(model: nn.Module, mesh: DeviceMesh, source: int | None = 0) -> None:
    """Shard every block of a GPT among the ranks of a mesh with one axis.

    The model's queries, keys and values follow one another in one matrix. Its rows are first put in
    the order of heads, so that a slice consists of whole heads. The sums stay the same.

    Args:
        model: the model, equal on every rank of the mesh, on its device.
        source: rank within the mesh that scatters its values; None for each rank to take its part
            of its own, without communication.

    Raises:
        ConfigError: it is not a GPT, or its heads cannot be divided evenly.
    """
    num_ranks = mesh.size()
    if not isinstance(model, GPT):
        raise ConfigError(
            f"tensor-parallel is {num_ranks} for a {type(model).__name__}: expected a GPT, whose "
            "blocks can be sharded; try --model gpt-tiny"
        )
    heads = model.config.heads
    if heads % num_ranks:
        raise ConfigError(
            f"tensor-parallel is {num_ranks}: expected a divisor of the {heads} heads of attention"
        )
    for block in model.blocks:
        block.attention = _by_heads(block.attention, num_ranks)
        plan: dict[str, ParallelStyle] = {name: style() for name, style in PLAN.items()}
        parallelize_module(block, mesh, plan, src_data_rank=source)


class _ByHeads(nn.Module):
    """Attention whose first matrix has query, key and value of one head after another."""

    def __init__(self, attention: Any, num_ranks: int) -> None:
        super().__init__()
        self.query_key_value = attention.query_key_value
        self.output = attention.output
        self.heads = attention.heads
        self.own_heads = attention.heads // num_ranks

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position of x [B, T, h] with those before it: [B, T, h]."""
        batch, time, width = x.shape
        split = (batch, time, self.own_heads, 3, width // self.heads)
        query, key, value = self.query_key_value(x).view(split).permute(3, 0, 2, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, time, -1))
        return out


@torch.no_grad()
def _by_heads(attention: Any, num_ranks: int) -> _ByHeads:
    """The same attention, with the rows of its first matrix in a different order."""
    matrix = attention.query_key_value
    rows = by_heads(matrix.in_features, attention.heads)
    matrix.weight.copy_(matrix.weight[rows].clone())
    matrix.bias.copy_(matrix.bias[rows].clone())
    return _ByHeads(attention, num_ranks)


def by_heads(width: int, heads: int) -> Tensor:
    """The rows of the matrix of queries, keys and values, in the order of heads: int64 [3h]."""
    return torch.arange(3 * width).view(3, heads, width // heads).transpose(0, 1).reshape(-1)
