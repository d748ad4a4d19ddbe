"""A program as people write it for DeepSpeed, started by torchrun; it knows nothing of zerosim."""

import os

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import deepspeed.ops
import torch
from torch import nn

# would be compiled at the first collective, for a minute and a half
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False

CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
}
STEPS = 3


def main() -> None:
    torch.manual_seed(0)
    deepspeed.init_distributed("gloo")
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=CONFIG
    )
    for _ in range(STEPS):
        x = torch.randn(4, 8)
        loss = (engine(x) - x.sum(1, keepdim=True)).square().mean()
        engine.backward(loss)
        engine.step()
    if engine.global_rank == 0:
        print(f"trained to a loss of {loss.item():.3f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
