"""torchrun --nproc-per-node 2 train.py: a small model, trained with local SGD."""

import torch
import torch.distributed as dist
from local_sgd import LocalSGD
from torch import nn


def main() -> None:
    """Six steps, each on data of the rank's own, with an average after every third."""
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = LocalSGD(torch.optim.SGD(model.parameters(), lr=0.1), every=3)
    torch.manual_seed(dist.get_rank())
    for _ in range(6):
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
