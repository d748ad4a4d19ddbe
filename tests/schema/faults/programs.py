"""Programs that are broken: as people write them, with PyTorch's DDP, FSDP2 and pipelines."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 48
BATCH = 8


class Block(nn.Module):
    """A layer."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.tanh(self.linear(x))


class Net(nn.Module):
    """Four blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def data(seed, steps):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(BATCH * steps, WIDTH, generator=generator)
    return DataLoader(TensorDataset(inputs), batch_size=BATCH)


def train(model, loader):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for (x,) in loader:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp(seed, steps):
    """DistributedDataParallel, three buckets."""
    torch.manual_seed(seed)
    everybody = dist.new_group(list(range(dist.get_world_size())))
    train(DistributedDataParallel(Net(), bucket_cap_mb=0.012), data(seed, steps))
    dist.barrier(everybody)


def fsdp2(seed, steps):
    """FSDP2: each block, and the root."""
    torch.manual_seed(seed)
    everybody = dist.new_group(list(range(dist.get_world_size())))
    model = Net()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    train(model, data(seed, steps))
    dist.barrier(everybody)


def pipeline(seed, steps):
    """A pipeline in the order of 1F1B: a block on each rank, a batch in four."""
    torch.manual_seed(seed)
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    block = Block()
    stage = PipelineStage(block, rank, num_ranks, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.AdamW(block.parameters(), lr=0.01)
    for (x,) in data(seed, steps):
        given = (x,) if rank == 0 else ()
        schedule.step(*given, target=x if rank == num_ranks - 1 else None)
        optimizer.step()
        optimizer.zero_grad()
