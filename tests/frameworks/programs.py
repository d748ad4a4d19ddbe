"""Programs as people write them with PyTorch's own data parallelism. None knows of zerosim."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, AdamW
from torch.utils._python_dispatch import TorchDispatchMode

from tests.frameworks.models import (
    Block,
    Config,
    LMHeadModel,
    Net,
    NormNet,
    inputs,
    tokens,
    whole_weights,
)
from tests.frameworks.witness import run_three_times

STEPS = 3


def train(model, *, optimizer=None, micro_steps=1, unsynced=None, clip=False, steps=STEPS):
    """A training loop.

    Args:
        unsynced: makes a context for each micro-step but the last.
    """
    optimizer = optimizer or AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        for micro_step in range(micro_steps):
            is_last = micro_step == micro_steps - 1
            with nullcontext() if is_last or unsynced is None else unsynced():
                x, y = inputs(10 * step + micro_step)
                F.cross_entropy(model(x), y).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model


def ddp(net=Net, *, micro_steps=1, no_sync=False, hook=None, compiled=False, **options):
    """DistributedDataParallel."""
    model = DistributedDataParallel(net(), **options)
    if hook is not None:
        model.register_comm_hook(None, hook)
    called = torch.compile(model, backend="aot_eager") if compiled else model
    train(called, micro_steps=micro_steps, unsynced=model.no_sync if no_sync else None)
    return whole_weights(model.module)


def half_of_the_ranks():
    """A group of its own for each half of the ranks."""
    ranks = list(range(dist.get_world_size()))
    half = len(ranks) // 2
    groups = [dist.new_group(ranks[:half]), dist.new_group(ranks[half:])]
    return groups[dist.get_rank() // half]


def own_hook(_, bucket):
    """A communication hook of the program's own."""
    work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


class FrozenNet(Net):
    """Its stem is not trained."""

    def __init__(self):
        super().__init__()
        self.stem.requires_grad_(False)


def zero_redundancy(**options):
    """DDP and ZeroRedundancyOptimizer."""
    # importing it warns of torch.jit, and only ranks may import what warns
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(Net())
    train(model, optimizer=ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=0.01, **options))
    return whole_weights(model.module)


def sharded(net=Net, *, root=True, compiled=False, shape=None, before=None, **options):
    """FSDP2: each block, and the rest with the root."""
    model = net()
    names = None if shape is None else ("replicate", "shard")
    mesh = init_device_mesh("cpu", shape or (dist.get_world_size(),), mesh_dim_names=names)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    if root:
        fully_shard(model, mesh=mesh, **options)
    if before is not None:
        before(model)
    if compiled:
        for block in model.blocks:
            block.compile(backend="aot_eager")
    return model


def fsdp2(net=Net, **options):
    """FSDP2, trained."""
    return whole_weights(train(sharded(net, **options), clip=options.get("root", True)))


def fsdp2_accumulates(switch):
    """FSDP2 with two micro-steps; `switch` is called with the model and what it is to be."""
    model = sharded()
    optimizer = AdamW(model.parameters(), lr=0.01)
    for step in range(STEPS):
        for micro_step in range(2):
            if switch is not None:
                switch(model, micro_step == 1)
            x, y = inputs(10 * step + micro_step)
            F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return whole_weights(model)


def keeps_after_backward(model, is_last):
    """Parameters stay whole from one micro-step to the next."""
    model.set_requires_gradient_sync(is_last)
    model.set_reshard_after_backward(is_last)


def fsdp1(*, micro_steps=1, no_sync=False, clip=False, **options):
    """FSDP1: each block, and the rest with the root."""
    model = flat_blocks(Net(), **options)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        for micro_step in range(micro_steps):
            is_last = micro_step == micro_steps - 1
            with model.no_sync() if no_sync and not is_last else nullcontext():
                x, y = inputs(10 * step + micro_step)
                F.cross_entropy(model(x).float(), y).backward()
        if clip:
            model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
    with FullyShardedDataParallel.summon_full_params(model):
        return {name: value.detach().clone() for name, value in model.named_parameters()}


def hand_written(reduce, *, group=None, async_backward=False):
    """A loop that calls collectives by itself; `reduce` is called with the model."""
    model = Net()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = SGD(model.parameters(), lr=0.1)
    handles = []
    if async_backward:
        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(
                lambda p: handles.append(dist.all_reduce(p.grad, async_op=True))
            )
    for step in range(STEPS):
        x, y = inputs(step)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if reduce is not None:
            reduce(model, group)
        for handle in handles:
            handle.wait()
        handles.clear()
        dist.all_reduce(loss.detach())
        optimizer.step()
        optimizer.zero_grad()
    return whole_weights(model)


def one_by_one(model, group):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)


def asynchronous(model, group):
    works = [dist.all_reduce(p.grad, group=group, async_op=True) for p in model.parameters()]
    for work in works:
        work.wait()


def coalesced(model, group):
    with dist.distributed_c10d._coalescing_manager(group):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, group=group)


def flattened(model, group):
    gradients = [parameter.grad for parameter in model.parameters()]
    flat = torch._utils._flatten_dense_tensors(gradients)
    dist.all_reduce(flat, group=group)
    parts = torch._utils._unflatten_dense_tensors(flat, gradients)
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part)


def hand_written_zero():
    """Reduce-scatter of flat gradients, each rank steps its part, all-gather of flat weights."""
    model = Net()
    sizes = [parameter.numel() for parameter in model.parameters()]
    num_ranks, rank = dist.get_world_size(), dist.get_rank()
    padded = -(-sum(sizes) // num_ranks) * num_ranks
    weights, gradients = torch.zeros(padded), torch.zeros(padded)
    sizes.append(padded - sum(sizes))
    pieces = zip(model.parameters(), weights.split(sizes), gradients.split(sizes), strict=False)
    for parameter, weight, gradient in pieces:
        weight.copy_(parameter.data.flatten())
        parameter.data = weight.view_as(parameter)
        parameter.grad = gradient.view_as(parameter)
    shard = torch.nn.Parameter(weights.chunk(num_ranks)[rank])
    shard.grad = torch.zeros_like(shard)
    optimizer = SGD([shard], lr=0.1)
    for step in range(STEPS):
        x, y = inputs(step)
        F.cross_entropy(model(x), y).backward()
        dist.reduce_scatter_tensor(shard.grad, gradients)
        optimizer.step()
        dist.all_gather_into_tensor(weights, shard.detach().clone())
        gradients.zero_()
    return whole_weights(model)


class Watching(TorchDispatchMode):
    """Sees every operator, as CommDebugMode does, which a program may use while it is traced."""

    @torch._disable_dynamo
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def watched():
    """DDP, with a mode between autograd and the operators."""
    with Watching():
        return ddp()


def built_in_hook():
    """DDP with a communication hook in C++."""
    model = DistributedDataParallel(Net())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    return whole_weights(train(model).module)


def evaluates(wrap, net=Net):
    """An evaluation between the steps."""
    model = net()
    called = wrap(model)
    optimizer = SGD(called.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = inputs(step)
        F.cross_entropy(called(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            called(x)
    return whole_weights(model)


def adversaries(wrap):
    """Two models, two optimizers: one learns from what the other makes, then the other."""
    maker, judge = Net(), Net()
    adapter = torch.ones(3, 5)
    called_maker, called_judge = wrap(maker), wrap(judge)
    optimizers = [SGD(called.parameters(), lr=0.1) for called in (called_maker, called_judge)]
    for step in range(STEPS):
        x, y = inputs(step)
        with torch.no_grad():
            made = called_maker(x) @ adapter
        both = called_judge(torch.cat([x, made]))
        F.cross_entropy(both, torch.cat([y, y])).backward()
        optimizers[1].step()
        optimizers[1].zero_grad()
        judged = called_judge(called_maker(x) @ adapter)
        F.cross_entropy(judged, y).backward()
        optimizers[0].step()
        for optimizer in optimizers:
            optimizer.zero_grad()
    return {
        f"{k} {name}": v
        for k, net in enumerate((maker, judge))
        for name, v in whole_weights(net).items()
    }


def blocks_sharded(model):
    """FSDP2: each block, and the rest with the root."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def flat_blocks(model, **options):
    """FSDP1: each block, and the rest with the root."""
    return FullyShardedDataParallel(
        model,
        auto_wrap_policy=ModuleWrapPolicy({Block}),
        device_id=torch.device("cpu"),
        **options,
    )


def language_model(wrap, *, checkpointed=False):
    """A model of nested names, keyword inputs and dict outputs, with tied weights."""
    model = LMHeadModel(Config())
    if checkpointed:
        model.gradient_checkpointing_enable()
    called = wrap(model)
    optimizer = AdamW(called.parameters(), lr=0.01)
    for step in range(STEPS):
        batch = tokens(step)
        mask = torch.ones(batch.shape[1], batch.shape[1]).tril().bool()
        called(input_ids=batch, attention_mask=mask, labels=batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return whole_weights(model)


def layers_sharded(model):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.transformer.h:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
FSDP1_BF16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def programs(num_ranks):
    """By name."""
    strategy = ShardingStrategy
    found = {
        "ddp": ddp,
        "ddp, small buckets": lambda: ddp(bucket_cap_mb=0.0005, gradient_as_bucket_view=True),
        "ddp, buffers, unused": lambda: ddp(NormNet, find_unused_parameters=True),
        "ddp, frozen": lambda: ddp(FrozenNet),
        "ddp, no_sync": lambda: ddp(micro_steps=2, no_sync=True),
        "ddp, accumulates": lambda: ddp(micro_steps=2),
        "ddp, fp16 hook": lambda: ddp(hook=default_hooks.fp16_compress_hook),
        "ddp, own hook": lambda: ddp(hook=own_hook),
        "ddp, compile": lambda: ddp(compiled=True),
        "zero redundancy": zero_redundancy,
        "zero redundancy, views": lambda: zero_redundancy(parameters_as_bucket_view=True),
        "fsdp2": fsdp2,
        "fsdp2, keeps after forward": lambda: fsdp2(reshard_after_forward=False),
        "fsdp2, root divided again": lambda: fsdp2(reshard_after_forward=True),
        "fsdp2, no root": lambda: fsdp2(root=False),
        "fsdp2, bf16": lambda: fsdp2(mp_policy=BF16),
        "fsdp2, frozen": lambda: fsdp2(FrozenNet),
        "fsdp2, compile": lambda: fsdp2(compiled=True),
        "fsdp2, checkpoints": lambda: fsdp2(lambda: Net(checkpointed="non-reentrant")),
        "fsdp2, reentrant": lambda: fsdp2(lambda: Net(checkpointed="reentrant")),
        "fsdp2, accumulates": lambda: fsdp2_accumulates(None),
        "fsdp2, reduces last": lambda: fsdp2_accumulates(
            lambda model, is_last: model.set_requires_gradient_sync(is_last)
        ),
        "fsdp2, keeps after backward": lambda: fsdp2_accumulates(keeps_after_backward),
        "fsdp2, not the last backward": lambda: fsdp2_accumulates(
            lambda model, is_last: model.set_is_last_backward(is_last)
        ),
        "fsdp1": lambda: fsdp1(use_orig_params=True, clip=True),
        "fsdp1, flat": lambda: fsdp1(use_orig_params=False),
        "fsdp1, shards gradients": lambda: fsdp1(sharding_strategy=strategy.SHARD_GRAD_OP),
        "fsdp1, no shard": lambda: fsdp1(sharding_strategy=strategy.NO_SHARD),
        "fsdp1, bf16": lambda: fsdp1(mixed_precision=FSDP1_BF16, use_orig_params=True),
        "fsdp1, no_sync": lambda: fsdp1(micro_steps=2, no_sync=True),
        "fsdp1, shards gradients, no_sync": lambda: fsdp1(
            micro_steps=2, no_sync=True, sharding_strategy=strategy.SHARD_GRAD_OP
        ),
        "hand-written": lambda: hand_written(one_by_one),
        "hand-written, coalesced": lambda: hand_written(coalesced),
        "hand-written, flattened": lambda: hand_written(flattened),
        "hand-written, asynchronous": lambda: hand_written(asynchronous),
        "hand-written, overlaps": lambda: hand_written(None, async_backward=True),
        "hand-written, flat ZeRO": hand_written_zero,
        "ddp, watched": watched,
        "ddp, built-in hook": built_in_hook,
        "ddp, buffers, no_sync": lambda: ddp(
            NormNet, micro_steps=2, no_sync=True, find_unused_parameters=True
        ),
        "ddp, buffers, evaluates": lambda: evaluates(
            lambda model: DistributedDataParallel(model, find_unused_parameters=True), NormNet
        ),
        "evaluates, fsdp2": lambda: evaluates(blocks_sharded),
        "evaluates, fsdp1": lambda: evaluates(flat_blocks),
        "adversaries, ddp": lambda: adversaries(DistributedDataParallel),
        "adversaries, fsdp2": lambda: adversaries(blocks_sharded),
        "language model, ddp": lambda: language_model(DistributedDataParallel),
        "language model, fsdp2": lambda: language_model(layers_sharded),
        "language model, checkpoints": lambda: language_model(layers_sharded, checkpointed=True),
    }
    if num_ranks == 4:
        kept = ("ddp", "zero redundancy", "fsdp2", "fsdp2, bf16", "fsdp1", "fsdp1, no_sync")
        found = {name: found[name] for name in kept} | {
            "hsdp": lambda: fsdp2(shape=(2, 2)),
            "fsdp2, divided among two": lambda: fsdp2(reshard_after_forward=2),
            "fsdp1, hybrid": lambda: fsdp1(
                sharding_strategy=strategy.HYBRID_SHARD,
                device_mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")),
                use_orig_params=True,
            ),
            "ddp, half the ranks": lambda: ddp(process_group=half_of_the_ranks()),
            "hand-written, half the ranks": lambda: hand_written(
                one_by_one, group=half_of_the_ranks()
            ),
        }
    return found


def run_all(folder, names):
    """Run these programs three times each; returns what each showed, by name."""
    found = programs(dist.get_world_size())
    return {name: run_three_times(name, found[name], folder) for name in names}
