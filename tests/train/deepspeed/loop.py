"""A training loop as people write it for DeepSpeed; a test runs it with only the import changed.

torchrun --nproc-per-node 2 tests/train/deepspeed/loop.py --deepspeed_config ds_config.json
"""

import argparse

import deepspeed
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, width=12, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Points(torch.utils.data.Dataset):
    """Points of four classes."""

    def __init__(self, count=96, width=12):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(count, width, generator=generator)
        self.y = self.x[:, :4].argmax(1)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def parameter_groups(model):
    """Weight decay for matrices only."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]


def train(args, epochs=2):
    torch.manual_seed(0)
    model = Net()
    model_engine, optimizer, loader, _ = deepspeed.initialize(
        args=args,
        model=model,
        model_parameters=parameter_groups(model),
        training_data=Points(),
    )
    criterion = nn.CrossEntropyLoss()
    losses, rates = [], []
    for _ in range(epochs):
        model_engine.train()
        for batch in loader:
            x, y = (tensor.to(model_engine.device) for tensor in batch)
            if model_engine.bfloat16_enabled():
                x = x.bfloat16()
            loss = criterion(model_engine(x).float(), y)
            model_engine.backward(loss)
            boundary = model_engine.is_gradient_accumulation_boundary()
            model_engine.step()
            losses.append(loss.item())
            if boundary:
                rates.append(optimizer.param_groups[0]["lr"])
    if model_engine.global_rank == 0:
        print(f"{model_engine.global_steps} steps: loss {losses[0]:.4f} to {losses[-1]:.4f}")
    return model_engine, losses, rates


if __name__ == "__main__":
    parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
    parser.add_argument("--local_rank", type=int, default=-1)
    train(parser.parse_args())
