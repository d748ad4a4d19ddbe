"""A training program that torchrun starts and that ends early. It knows nothing of zerosim.

`once` one rank dies in its first attempt; `never` it continues until it is interrupted.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# of each attempt its own: in torchrun's store a rank may find the other's address of the one before
meeting = f"file://{sys.argv[2]}-{os.environ['TORCHELASTIC_RESTART_COUNT']}"
rank, num_ranks = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=num_ranks)
model = DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
there = Path(f"{sys.argv[2]}-there")
is_last = dist.get_rank() == 1
for step in range(4):
    is_time = is_last and step == 2
    if is_time and sys.argv[1] == "once" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        while not there.exists():  # the other has finished the steps before
            time.sleep(0.05)
        os._exit(7)
    loss = model(torch.ones(2, 8)).sum()
    if step == 2:
        there.touch()
    if is_time and sys.argv[1] == "never":
        time.sleep(600)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
sys.stdout.write("done\n")  # not print, which writes the line's end apart where nothing is buffered
dist.destroy_process_group()
