"""A rank that torchrun starts. It knows nothing of zerosim."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.full((5,), float(dist.get_rank()))
dist.all_reduce(tensor)
print(tensor.tolist(), sys.stdin.read(), flush=True)
dist.barrier()
dist.destroy_process_group()
sys.exit(4 if "--fail" in sys.argv else 0)
