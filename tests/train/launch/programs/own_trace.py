"""A rank that traces itself, alone, with an engine of zerosim's."""

import sys

import torch
import torch.distributed as dist
from torch import nn

import zerosim
from tests.ranks import free_port

dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1)
dist.barrier()
with zerosim.trace(sys.argv[1]):
    engine = zerosim.initialize(nn.Sequential(nn.Linear(2, 2)), zerosim.EngineConfig(stage=1))
    loss = engine(torch.ones(1, 2)).sum()
    engine.backward(loss)
    engine.step()
    engine.close()
dist.barrier()
print("done")
dist.destroy_process_group()
