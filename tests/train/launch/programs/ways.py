"""Ranks that end in every way that a program can end. It knows nothing of zerosim.

`python ways.py FOLDER WAY ...` imports PyTorch once and forks two ranks for each way, one way
after another; FREE_PORTS are two ports for each. What the ranks print and how they ended is in
FOLDER, for each way; if they are traced, the traces of a way are in FOLDER/WAY.
"""

import gc
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch._dynamo  # an optimizer imports it when it is made
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

DEADLINE_S = 60


def reduce_once(size: int = 4) -> torch.Tensor:
    tensor = torch.arange(size, dtype=torch.float32) + dist.get_rank()
    dist.all_reduce(tensor)
    return tensor


def returns() -> None:
    print(reduce_once().tolist())
    print(nn.LazyLinear(2)(torch.ones(1, 3)).shape)  # has parameters without a storage
    dist.destroy_process_group()


def returns_without_destroying() -> None:
    print(reduce_once().tolist())
    sys.stdout.flush()
    dist.barrier()


def raises() -> None:
    reduce_once()
    if dist.get_rank() == 1:
        raise RuntimeError("rank 1 is not well")
    reduce_once()


def raises_in_backward() -> None:
    weight = torch.ones(4, requires_grad=True)
    loss = (weight.exp() * reduce_once()).sum()
    with torch.no_grad():
        weight.exp()
    loss.backward()
    dist.destroy_process_group()
    loss.backward()


def refuses_a_wrong_shape() -> None:
    reduce_once()
    try:
        dist.all_gather_into_tensor(torch.zeros(3), torch.zeros(2))
    finally:
        dist.destroy_process_group()


def exits_with_7() -> None:
    reduce_once()
    dist.destroy_process_group()
    sys.exit(7)


def leaves_at_once() -> None:
    reduce_once()
    print("leaving")
    sys.stdout.flush()
    os._exit(3)


def is_killed() -> None:
    reduce_once()
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        reduce_once()
    except RuntimeError:
        print("the other is gone")
        sys.stdout.flush()
        os._exit(9)


def hangs_until_sigterm() -> None:
    reduce_once()
    store = dist.distributed_c10d._get_default_store()
    if dist.get_rank() == 1:
        store.wait(["called"])
        os.kill(os.getppid(), signal.SIGUSR1)
        time.sleep(DEADLINE_S)
    work = dist.all_reduce(torch.ones(4), async_op=True)
    store.set("called", "")
    work.wait()


def hangs_until_sigint() -> None:
    reduce_once()
    store = dist.distributed_c10d._get_default_store()
    store.set(f"over {dist.get_rank()}", "")
    store.wait(["over 0", "over 1"])
    if dist.get_rank() == 1:
        # both are a line before they sleep: for that the time is
        threading.Timer(0.6, os.kill, (os.getppid(), signal.SIGUSR2)).start()
    time.sleep(DEADLINE_S)


def destroys_twice() -> None:
    reduce_once()
    dist.destroy_process_group()
    dist.destroy_process_group()


def joins_twice() -> None:
    reduce_once()
    dist.destroy_process_group()
    join(os.environ["SECOND_PORT"])
    print(reduce_once(8).tolist())
    dist.destroy_process_group()


def joins_twice_with_other_groups() -> None:
    dist.all_reduce(torch.ones(1), group=dist.new_group([0, 1]))
    dist.destroy_process_group()
    join(os.environ["SECOND_PORT"])
    group = dist.new_group([dist.get_world_size() - 1])
    if dist.get_rank() == 1:
        dist.all_reduce(torch.ones(1), group=group)
    print(reduce_once().tolist())
    dist.destroy_process_group()


def joins_as_another() -> None:
    reduce_once()
    dist.destroy_process_group()
    os.environ["RANK"] = str(1 - int(os.environ["RANK"]))
    join(os.environ["SECOND_PORT"])
    print(reduce_once(8).tolist())
    dist.destroy_process_group()


def joins_without_leaving() -> None:
    reduce_once()
    join(os.environ["SECOND_PORT"])


def loads_with_workers() -> None:
    numbers = TensorDataset(torch.arange(8.0))
    for (batch,) in DataLoader(numbers, batch_size=4, num_workers=2):
        dist.all_reduce(batch)
        print(batch.tolist())
    dist.destroy_process_group()


def forks() -> None:
    reduce_once()
    child = os.fork()
    if child == 0:
        layer = nn.Linear(2, 2)
        layer(torch.ones(1, 2)).sum().backward()
        sys.stdout.flush()
        os._exit(5)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(reduce_once().tolist())
    dist.destroy_process_group()


def fills_the_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000))
    for _ in range(1000):  # the tracer keeps room for some rows ahead
        reduced = reduce_once()
    print(reduced.tolist())
    dist.destroy_process_group()


def trains() -> None:
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 0, 1]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item().hex())
    for parameter in model.parameters():
        print([value.hex() for value in parameter.flatten().tolist()])
    # the model goes with the group's last reference, and Python's lock is held meanwhile: PyTorch
    # then waits for a thread of its own that may need the lock to let go of the last all-reduce
    time.sleep(0.2)
    dist.destroy_process_group()


def fails_before_it_trains() -> None:
    DistributedDataParallel(nn.Linear(4, 2))
    raise RuntimeError("there are no data")


WAYS = {
    way.__name__: way
    for way in (
        returns,
        returns_without_destroying,
        raises,
        raises_in_backward,
        fails_before_it_trains,
        refuses_a_wrong_shape,
        exits_with_7,
        leaves_at_once,
        is_killed,
        hangs_until_sigterm,
        hangs_until_sigint,
        destroys_twice,
        joins_twice,
        joins_twice_with_other_groups,
        joins_as_another,
        joins_without_leaving,
        loads_with_workers,
        forks,
        fills_the_disk,
        trains,
    )
}


def join(port: str) -> None:
    os.environ["MASTER_PORT"] = port
    dist.init_process_group("gloo")


def start(way: str, folder: Path, ports: Iterator[str]) -> list[int]:
    """Fork two ranks; in each of them this does not return."""
    os.environ.update(
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=next(ports),
        SECOND_PORT=next(ports),
        WORLD_SIZE="2",
    )
    if "ZEROSIM_TRACE" in os.environ:  # each way has a folder of its own
        settings = json.loads(os.environ["ZEROSIM_TRACE"])
        os.environ["ZEROSIM_TRACE"] = json.dumps(settings | {"folder": str(folder / way)})
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            for number, name in ((1, "out"), (2, "err")):
                path = folder / f"{way}.{rank}.{name}"
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
            os.environ["RANK"] = str(rank)
            join(os.environ["MASTER_PORT"])
            WAYS[way]()
            raise SystemExit
        children.append(child)
    return children


def main() -> None:
    folder = Path(sys.argv[1])
    ports = iter(os.environ["FREE_PORTS"].split())
    children: list[int] = []
    for asked, sent in ((signal.SIGUSR1, signal.SIGTERM), (signal.SIGUSR2, signal.SIGINT)):
        signal.signal(asked, lambda *_, sent=sent: [os.kill(child, sent) for child in children])
    for way in sys.argv[2:]:
        children[:] = start(way, folder, ports)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        (folder / f"{way}.codes").write_text(json.dumps(codes))


if __name__ == "__main__":
    torch.set_num_threads(1)
    gc.freeze()
    # zerosim cannot be imported from here
    sys.path[:] = [path for path in sys.path if not Path(path, "zerosim").is_dir()]
    main()
