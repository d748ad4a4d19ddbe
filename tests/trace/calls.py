"""Every way to ask PyTorch for communication, and what the tracer must say of it.

Three ranks make each call under a label of its own; sizes are in elements of fp32 unless said.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import nn

import zerosim
from zerosim.schema.events import Op
from zerosim.trace import labels

NUM_RANKS = 3
N = 6
"""Elements of a small tensor."""


def renamed(home, new, old):
    """What PyTorch 2.13 calls `new`, before it `old`."""
    return getattr(home, new, None) or getattr(home, old)


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype)


def several(size=N):
    return [ones(size) for _ in range(NUM_RANKS)]


def message(group=None, send=dist.send, receive=dist.recv):
    """From rank 1 to rank 2."""
    works = []
    if dist.get_rank() == 1:
        works.append(send(ones(N), 2, group=group))
    elif dist.get_rank() == 2:
        works.append(receive(ones(N), 1, group=group))
    for work in works:
        if isinstance(work, dist.Work):
            work.wait()


def circle():
    rank = dist.get_rank()
    operations = [
        dist.P2POp(dist.isend, ones(N), (rank + 1) % NUM_RANKS),
        dist.P2POp(dist.irecv, ones(N), (rank - 1) % NUM_RANKS),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def receive_from_anyone():
    message(receive=lambda buffer, source, group: dist.recv(buffer, group=group))


def receive_twice_from_anyone():
    """Rank 0 is sent to by both others; returns in which order, as PyTorch says."""
    if dist.get_rank() == 0:
        return [dist.recv(ones(N)) for _ in range(2)]
    dist.send(ones(N), 0)
    return []


def only_root(value):
    return value if dist.get_rank() == 0 else None


def calls(pair):
    """By name: what to call, and (op, elements, dtype) of what must be seen, on all ranks.

    Args:
        pair: the group of ranks 1 and 2.
    """
    gather_single = renamed(dist, "all_gather_single", "all_gather_into_tensor")
    scatter_single = renamed(dist, "reduce_scatter_single", "reduce_scatter_tensor")
    f_gather = renamed(functional, "all_gather_single", "all_gather_tensor")
    f_scatter = renamed(functional, "reduce_scatter_single", "reduce_scatter_tensor")
    f_gathers = renamed(
        functional, "all_gather_single_coalesced", "all_gather_into_tensor_coalesced"
    )
    f_scatters = renamed(
        functional, "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced"
    )
    world = dist.group.WORLD
    whole = NUM_RANKS * N
    object_bytes = len(only_pickle({"loss": 1.5}))

    def one(op, elements, dtype="float32"):
        return [(op, elements, dtype)]

    def wait(result):
        for tensor in result if isinstance(result, list | tuple) else [result]:
            tensor.sum()

    return {
        "all_reduce": (lambda: dist.all_reduce(ones(N)), one(Op.ALL_REDUCE, N)),
        "all_reduce, bf16": (
            lambda: dist.all_reduce(ones(N, dtype=torch.bfloat16)),
            one(Op.ALL_REDUCE, N, "bfloat16"),
        ),
        "all_reduce, scalar": (
            lambda: dist.all_reduce(torch.tensor(3)),
            one(Op.ALL_REDUCE, 1, "int64"),
        ),
        "all_reduce, async": (
            lambda: dist.all_reduce(ones(N), async_op=True).wait(),
            one(Op.ALL_REDUCE, N),
        ),
        "all_reduce, not waited for": (
            lambda: dist.all_reduce(ones(N), async_op=True),
            one(Op.ALL_REDUCE, N),
        ),
        "all_reduce_coalesced": (
            lambda: dist.all_reduce_coalesced([ones(N), ones(1)]),
            one(Op.ALL_REDUCE, N + 1),
        ),
        "all_gather": (lambda: dist.all_gather(several(), ones(N)), one(Op.ALL_GATHER, whole)),
        "all_gather_single": (
            lambda: gather_single(ones(whole), ones(N)),
            one(Op.ALL_GATHER, whole),
        ),
        "all_gather_coalesced": (
            lambda: dist.all_gather_coalesced(
                [[ones(N), ones(2)] for _ in range(NUM_RANKS)], [ones(N), ones(2)]
            ),
            one(Op.ALL_GATHER, NUM_RANKS * (N + 2)),
        ),
        "all_gather_object": (
            lambda: dist.all_gather_object([None] * NUM_RANKS, {"loss": 1.5}),
            one(Op.ALL_GATHER, NUM_RANKS, "int64")
            + one(Op.ALL_GATHER, NUM_RANKS * object_bytes, "uint8"),
        ),
        "reduce_scatter": (
            lambda: dist.reduce_scatter(ones(N), several()),
            one(Op.REDUCE_SCATTER, whole),
        ),
        "reduce_scatter_single": (
            lambda: scatter_single(ones(N), ones(whole)),
            one(Op.REDUCE_SCATTER, whole),
        ),
        "broadcast": (lambda: dist.broadcast(ones(N), 1), one(Op.BROADCAST, N)),
        "reduce": (lambda: dist.reduce(ones(N), 1), one(Op.REDUCE, N)),
        "gather": (lambda: dist.gather(ones(N), only_root(several())), one(Op.GATHER, whole)),
        "scatter": (lambda: dist.scatter(ones(N), only_root(several())), one(Op.SCATTER, whole)),
        "all_to_all_single": (
            lambda: dist.all_to_all_single(ones(N), ones(N)),
            one(Op.ALL_TO_ALL, N),
        ),
        "all_to_all": (
            lambda: dist.all_to_all(several(2), several(2)),
            one(Op.ALL_TO_ALL, NUM_RANKS * 2),
        ),
        "barrier": (dist.barrier, one(Op.BARRIER, 0, "")),
        "monitored_barrier": (dist.monitored_barrier, one(Op.BARRIER, 0, "")),
        "send, recv": (message, None),
        "isend, irecv": (lambda: message(send=dist.isend, receive=dist.irecv), None),
        "send, recv in a group": (lambda: message(pair), None),
        "recv from anyone": (receive_from_anyone, None),
        "batch_isend_irecv": (circle, None),
        "functional all_reduce": (
            lambda: wait(functional.all_reduce(ones(N), "sum", world)),
            one(Op.ALL_REDUCE, N),
        ),
        "functional all_gather": (
            lambda: wait(f_gather(ones(N), 0, world)),
            one(Op.ALL_GATHER, whole),
        ),
        "functional reduce_scatter": (
            lambda: wait(f_scatter(ones(N), "sum", 0, world)),
            one(Op.REDUCE_SCATTER, N),
        ),
        "functional all_reduce, coalesced": (
            lambda: wait(functional.all_reduce_coalesced([ones(N), ones(3)], "sum", world)),
            one(Op.ALL_REDUCE, N + 3),
        ),
        "functional all_gather, coalesced": (
            lambda: wait(f_gathers([ones(N), ones(3)], world)),
            one(Op.ALL_GATHER, NUM_RANKS * (N + 3)),
        ),
        "functional reduce_scatter, coalesced": (
            lambda: wait(f_scatters([ones(N), ones(3)], "sum", [0, 0], world)),
            one(Op.REDUCE_SCATTER, N + 3),
        ),
        "functional all_to_all": (
            lambda: wait(functional.all_to_all_single(ones(N), None, None, world)),
            one(Op.ALL_TO_ALL, N),
        ),
    }


def only_pickle(value):
    """The bytes that PyTorch makes of an object before it sends them."""
    tensor, _ = dist.distributed_c10d._object_to_tensor(
        value, torch.device("cpu"), dist.group.WORLD
    )
    return tensor


def programs(mesh):
    """Programs that communicate by themselves: by name, (what to run, what must be seen)."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    def redistribute(before, after):
        return lambda: DTensor.from_local(ones(N, 2), mesh, [before]).redistribute(mesh, [after])

    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    ddp = nn.parallel.DistributedDataParallel(nn.Linear(6, 6))
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
    sharded = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    for layer in sharded:
        fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    size = 6 * 6 + 6

    def forward_and_backward(module):
        return lambda: module(ones(3, 6)).sum().backward()

    def through_autograd():
        start = ones(N).requires_grad_()
        differentiable.all_reduce(start).sum().backward()

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(context, value):
            dist.all_reduce(value.clone())
            return value * 2

        @staticmethod
        def backward(context, gradient):
            dist.broadcast(gradient.clone(), 0)
            return gradient * 2

    def shards_step():
        model(ones(3, 6)).sum().backward()
        zero.step()

    reduce, gather, scatter = Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER
    return {
        "DTensor, shard to replicate": (redistribute(Shard(0), Replicate()), [(gather, 36)]),
        "DTensor, partial to replicate": (redistribute(Partial(), Replicate()), [(reduce, 12)]),
        "DTensor, partial to shard": (redistribute(Partial(), Shard(0)), [(scatter, 12)]),
        "autograd": (through_autograd, [(reduce, N), (reduce, N)]),
        "autograd.Function": (
            lambda: Doubled.apply(ones(N).requires_grad_()).sum().backward(),
            [(reduce, N), (Op.BROADCAST, N)],
        ),
        "DDP": (forward_and_backward(ddp), [(reduce, size)]),
        "ZeroRedundancyOptimizer": (
            shards_step,
            [(Op.BROADCAST, 36)] * 2 + [(Op.BROADCAST, 6)] * 2,
        ),
        "FSDP2": (
            forward_and_backward(sharded),
            [(gather, size)] * 4 + [(scatter, size)] * 2,
        ),
    }


MODES = {
    "plain": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


def make_all(folder):
    """Make all calls traced; returns what CommDebugMode counted of each in plain mode."""
    from torch.distributed.tensor.debug import CommDebugMode

    warnings.simplefilter("ignore", FutureWarning)  # of the names before 2.13
    warnings.simplefilter("ignore", DeprecationWarning)
    rank = dist.get_rank()
    pair = dist.new_group([1, 2])
    mesh = dist.device_mesh.init_device_mesh("cpu", (NUM_RANKS,))
    witnessed = {}

    def make(name, call, witness):
        with labels.scope(unit=name):
            if witness:
                with CommDebugMode() as counts:
                    call()
                witnessed[name] = counts.get_total_counts()
            else:
                call()

    by_name = calls(pair)
    for mode, enter in MODES.items():
        with zerosim.trace(f"{folder}/{mode}"):
            for name, (call, _) in by_name.items():
                with enter():
                    # a group's message is no business of a rank outside of it
                    if "in a group" not in name or rank in (1, 2):
                        make(name, call, witness=mode == "plain")
    of_programs = programs(mesh)
    with zerosim.trace(f"{folder}/programs"):
        for name, (call, _) in of_programs.items():
            make(name, call, witness=True)
    with zerosim.trace(f"{folder}/anyone"):
        sources = receive_twice_from_anyone()
    dist.all_reduce(ones(1))  # after the last block: in no trace
    with torch.inference_mode():
        keys = torch._C._dispatch_keys(ones(1))
    expected = {name: what for name, (_, what) in by_name.items()}
    expected |= {name: what for name, (_, what) in of_programs.items()}
    has_autograd = keys.has(torch._C.DispatchKey.AutogradCPU)
    name = pair.group_name if rank in (1, 2) else ""
    return expected, witnessed, has_autograd, sources, name
