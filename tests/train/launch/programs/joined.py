"""A rank that torchrun starts. It knows nothing of zerosim."""

import sys

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
tensor = torch.full((5,), float(dist.get_rank()))
dist.all_reduce(tensor)
# torchrun starts Python without buffers, where print writes a line and its end apart
sys.stdout.write(f"{tensor.tolist()}\n")
dist.barrier()
dist.destroy_process_group()
