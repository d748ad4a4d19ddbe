"""Two ranks by `torch.multiprocessing`, one of which raises. It knows nothing of zerosim."""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.ranks import free_port


def work(rank: int, port: int) -> None:
    os.environ.pop("LOCAL_RANK", None)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    tensor = torch.full((3,), float(rank + 1))
    dist.all_reduce(tensor)
    print(tensor.tolist(), flush=True)
    dist.destroy_process_group()
    if rank == 1:
        raise ArithmeticError("rank 1 cannot count")


if __name__ == "__main__":
    mp.start_processes(work, (free_port(),), nprocs=2, start_method=sys.argv[1])
