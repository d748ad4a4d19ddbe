"""Thousands of short steps under `zerosim trace`: the name of a system, and how many steps.

Each rank prints a line of JSON: what of its memory was resident after each tenth of the steps, and
the CPU time of all of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def ddp() -> Callable[[], None]:
    """One bucket a step."""
    model = DistributedDataParallel(nn.Linear(32, 32))
    return _step_of(model)


def fsdp2() -> Callable[[], None]:
    """Two wrapped modules and the root."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    for module in (model[0], model[2], model):
        fully_shard(module, mesh=mesh)
    return _step_of(model)


def deepspeed() -> Callable[[], None]:
    """ZeRO-2."""
    import deepspeed as theirs
    import deepspeed.ops

    # would be compiled at the first collective, for a minute and a half
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    model = nn.Linear(32, 32)
    engine, *_ = theirs.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 4,
            "zero_optimization": {"stage": 2},
            "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
        },
    )

    def step() -> None:
        engine.backward(engine(torch.randn(4, 32)).sum())
        engine.step()

    return step


def engine() -> Callable[[], None]:
    """zerosim's own engine, stage 3."""
    import zerosim

    model = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 32))
    ours = zerosim.initialize(model, zerosim.EngineConfig(stage=3))

    def step() -> None:
        ours.backward(ours(torch.randn(4, 32)).sum())
        ours.step()

    return step


def _step_of(model: nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    """Train."""
    system, num_steps = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    makers = {"ddp": ddp, "fsdp2": fsdp2, "deepspeed": deepspeed, "engine": engine}
    step = makers[system]()
    resident = []
    begin_s = time.process_time()
    for _ in range(10):
        for _ in range(int(num_steps) // 10):
            step()
        resident.append(_resident_bytes())
    said = {"resident_bytes": resident, "cpu_s": time.process_time() - begin_s}
    sys.stdout.write(f"{json.dumps(said)}\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
