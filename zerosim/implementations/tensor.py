"""Tensor parallelism with PyTorch's `parallelize_module`, cut as Megatron-LM cuts a block.

Source: Shoeybi et al., "Megatron-LM" (arXiv 1909.08053), section 3: the first matrix of attention
and of the MLP by columns, the second by rows. Imports torch and models.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from zerosim.config import RunConfig
from zerosim.implementations.common import Step, adam, model_of, plain_step
from zerosim.models import GPT, Batches

PLAN: dict[str, type[ColwiseParallel | RowwiseParallel]] = {
    "attention.query_key_value": ColwiseParallel,
    "attention.output": RowwiseParallel,
    "mlp.0": ColwiseParallel,
    "mlp.2": RowwiseParallel,
}
"""How each matrix of a block is cut."""


def tensor_parallel(run: RunConfig, batches: Batches) -> Step:
    """Every rank computes a part of each block on the data of all; what is left is computed by all.

    The model's queries, keys and values lie behind one another in one matrix; its rows are put in
    the order of heads first, so that a slice of it is whole heads. The sums stay the same.
    """
    model = model_of(run)
    assert isinstance(model, GPT), "the catalogue asks for a GPT"
    num_ranks = dist.get_world_size()
    mesh = init_device_mesh("cpu", (num_ranks,))
    for block in model.blocks:
        block.attention = _by_heads(block.attention, num_ranks)
        parallelize_module(block, mesh, {name: style() for name, style in PLAN.items()})
    divided = [one for one in model.parameters() if isinstance(one, DTensor)]
    whole = [one for one in model.parameters() if not isinstance(one, DTensor)]
    optimizer = adam([{"params": divided}, {"params": whole}])
    return plain_step(model, optimizer, batches.union)


class _ByHeads(nn.Module):
    """Attention whose first matrix holds query, key and value of one head after another."""

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
    """The same attention, with the rows of its first matrix in another order."""
    matrix, heads = attention.query_key_value, attention.heads
    width = matrix.in_features
    rows = torch.arange(3 * width).view(3, heads, width // heads).transpose(0, 1).reshape(-1)
    matrix.weight.copy_(matrix.weight[rows].clone())
    matrix.bias.copy_(matrix.bias[rows].clone())
    return _ByHeads(attention, num_ranks)
