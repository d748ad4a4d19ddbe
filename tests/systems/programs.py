"""Programs as people write them with PyTorch's own data parallelism. None knows of zerosim."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
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

import zerosim
from tests.systems.models import (
    INPUT,
    WIDTH,
    Block,
    Config,
    LMHeadModel,
    Net,
    NormNet,
    inputs,
    tokens,
    whole_weights,
)
from tests.systems.witness import run_traced, run_twice

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


class FrozenBelow(Net):
    """Its stem and the first two of its four blocks are not trained."""

    def __init__(self):
        super().__init__()
        self.blocks.extend(Block() for _ in range(2))
        for frozen in (self.stem, *self.blocks[:2]):
            frozen.requires_grad_(False)


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


def shards_by_hand(*, flat=False):
    """Gradients are reduce-scattered, and updated parts gathered, in the optimizer's step.

    Args:
        flat: copies all gradients into one buffer, in which they are no longer recognizable.
    """
    net = nn.Sequential(nn.Linear(64, 64, bias=False), nn.ReLU(), nn.Linear(64, 64, bias=False))
    train_squares(net, Sharding(list(net.parameters()), flat=flat), 64)
    return whole_weights(net)


class Sharding(torch.optim.Optimizer):
    """Plain SGD, each rank a part of every parameter."""

    def __init__(self, params, *, flat):
        super().__init__(params, {})
        self.flat = flat

    @torch.no_grad()
    def step(self):
        """Reduce, update the own part, gather."""
        (group,) = self.param_groups
        params = group["params"]
        if self.flat:
            sums = self.reduced(torch.cat([param.grad.flatten() for param in params]))
            whole = torch.empty(len(sums) * dist.get_world_size())
            dist.all_gather_into_tensor(whole, sums)
            parts = whole.split([param.numel() for param in params])
            for param, part in zip(params, parts, strict=True):
                param.sub_(part.view_as(param), alpha=0.01)
            return
        for param in params:
            own = param.data.chunk(dist.get_world_size())[dist.get_rank()]
            own.sub_(self.reduced(param.grad), alpha=0.01)
            dist.all_gather_into_tensor(param.data, own)

    @staticmethod
    def reduced(whole):
        """The own part of a sum."""
        part = torch.empty_like(whole[: len(whole) // dist.get_world_size()])
        dist.reduce_scatter_tensor(part, whole)
        return part


def train_squares(model, optimizer, size, *, after=None):
    """A loop over numbers in which `after` each backward something may be done."""
    for step in range(STEPS):
        torch.manual_seed(step)
        model(torch.randn(4, size)).square().mean().backward()
        if after is not None:
            after()
        optimizer.step()
        optimizer.zero_grad()


def messages_by_hand():
    """Two stages on two ranks: activations one way, their gradients back."""
    net = nn.Linear(32, 32)
    optimizer = SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        torch.manual_seed(step)
        if dist.get_rank() == 0:
            output = net(torch.randn(4, 32))
            dist.send(output.detach(), 1)
            gradient = torch.empty_like(output)
            dist.recv(gradient, 1)
            output.backward(gradient)
        else:
            x = torch.empty(4, 32)
            dist.recv(x, 0)
            net(x.requires_grad_()).square().mean().backward()
            dist.send(x.grad, 0)
        optimizer.step()
        optimizer.zero_grad()
    return whole_weights(net)


def beside_ddp():
    """What no plan of DDP asks for: a hook of the optimizer all-reduces a buffer of its own."""
    model = DistributedDataParallel(nn.Linear(64, 64))
    optimizer, buffer = SGD(model.parameters(), lr=0.1), torch.zeros(100_000)
    optimizer.register_step_pre_hook(lambda *_: dist.all_reduce(buffer))
    train_squares(model, optimizer, 64)
    return whole_weights(model.module)


def updated_by_muon():
    """FSDP2, and an optimizer that multiplies whole matrices."""
    net = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Linear(16, 8, bias=False))
    fully_shard(net[0])
    fully_shard(net)
    train_squares(net, torch.optim.Muon(net.parameters(), lr=0.01), 8)
    return whole_weights(net)


def replicated():
    """Data parallel on the machinery of FSDP2."""
    from torch.distributed._composable.replicate_with_fsdp import replicate

    net = Net()
    for block in net.blocks:
        replicate(block)
    train(replicate(net))
    return whole_weights(net)


def local_sgd():
    """Ranks train apart after two steps, and average their parameters after the third."""
    # importing them warns of torch.jit, and only ranks may import what warns
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    model = DistributedDataParallel(Net())
    alone, _ = dist.new_subgroups(group_size=1)
    state = local.PostLocalSGDState(process_group=None, subgroup=alone, start_localSGD_iter=2)
    model.register_comm_hook(state, local.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    train(model, optimizer=PostLocalSGDOptimizer(SGD(model.parameters(), lr=0.1), averager))
    return whole_weights(model.module)


def compressed_by_power_sgd():
    """Gradients as products of thin matrices; two of three calls come from callbacks."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    model = DistributedDataParallel(Net())
    state = power.PowerSGDState(process_group=None, start_powerSGD_iter=2, min_compression_rate=0.5)
    model.register_comm_hook(state, power.powerSGD_hook)
    train(model, optimizer=SGD(model.parameters(), lr=0.1))
    return whole_weights(model.module)


def joins():
    """The last rank has one batch more than the others, which join in what it calls."""
    model = DistributedDataParallel(Net())
    with Join([model]):
        is_last = dist.get_rank() == dist.get_world_size() - 1
        train(model, optimizer=SGD(model.parameters(), lr=0.1), steps=STEPS + is_last)
    return whole_weights(model.module)


def messages_late():
    """Beside DDP a message travels one iteration later than it was sent, among objects."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(Net())
    optimizer = SGD(model.parameters(), lr=0.1)
    work = None
    for step in range(STEPS + 1):
        if step < STEPS:
            x, y = inputs(step)
            F.cross_entropy(model(x), y).backward()
        # the receiver is ready now: until then, the sender waits after sending name and size
        if rank == 0 and work is not None:
            work.wait()
        elif rank == 1 and step:
            dist.recv(torch.empty(7), 0)
        if step < STEPS:
            dist.all_gather_object([None] * num_ranks, {"rank": rank})
            work = dist.isend(torch.ones(7), 1) if rank == 0 else None
            optimizer.step()
            optimizer.zero_grad()
    return model.state_dict()


def mostly_frozen(*, shards=False):
    """One layer learns, and a larger one before it does not."""
    net = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 1, bias=False))
    net[0].weight.requires_grad_(False)
    if shards:
        for layer in net:
            fully_shard(layer)
        model = fully_shard(net)
    else:
        model = DistributedDataParallel(net)
    train_squares(model, SGD(net[1].parameters(), lr=0.1), 256)
    return whole_weights(net)


def divided_by_hand():
    """Megatron's two matrices on two ranks, and data parallel between the pairs."""
    num_ranks, rank = dist.get_world_size(), dist.get_rank()
    rows = [dist.new_group([first, first + 1]) for first in range(0, num_ranks, 2)]
    columns = [dist.new_group(list(range(first, num_ranks, 2))) for first in range(2)]
    net = nn.Sequential(Divided(rows[rank // 2]), Divided(rows[rank // 2]))

    def reduce():
        for param in net.parameters():
            dist.all_reduce(param.grad, group=columns[rank % 2])

    train_squares(net, SGD(net.parameters(), lr=0.01), 32, after=reduce)
    return whole_weights(net)


class Divided(nn.Module):
    """A column and a row, whose outputs the pair sums."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        self.column = nn.Linear(32, 64, bias=False)
        self.row = nn.Linear(64, 32, bias=False)

    def forward(self, x):
        """Sum in forward, and in backward the gradient of the input."""
        hidden = F.relu(self.column(SummedBackwards.apply(x, self.group)))
        return x + SummedForwards.apply(self.row(hidden), self.group)


class SummedForwards(torch.autograd.Function):
    """An all-reduce in forward."""

    @staticmethod
    def forward(_, x, group):
        """Sum."""
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(_, gradient):
        """Hand on."""
        return gradient, None


class SummedBackwards(torch.autograd.Function):
    """An all-reduce in backward."""

    @staticmethod
    def forward(context, x, group):
        """Hand on."""
        context.group = group
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        """Sum."""
        gradient = gradient.clone()
        dist.all_reduce(gradient, group=context.group)
        return gradient, None


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


class Judge(torch.nn.Module):
    """Says how true what a Net makes looks."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(3, 4), torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))


def judge_sharded(model):
    """FSDP2: a layer of a judge, and the rest with the root; or the blocks of a Net."""
    if not isinstance(model, Judge):
        return blocks_sharded(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    fully_shard(model.first, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def generator_and_judge(wrap, *, apart=False):
    """The generator computes before the judge's step, and learns after it.

    Args:
        apart: the judge goes back through what is true before it sees what was made.
    """
    maker, judge = Net(), Judge()
    called_maker, called_judge = wrap(maker), wrap(judge)
    optimizers = [SGD(called.parameters(), lr=0.1) for called in (called_maker, called_judge)]
    for step in range(STEPS):
        x, y = inputs(step)
        true = F.one_hot(y, 3).float()
        optimizers[1].zero_grad()
        if apart:
            called_judge(true).mean().backward()
            made = called_maker(x)
            called_judge(made.detach()).mean().neg().backward()
        else:
            made = called_maker(x)
            (called_judge(true).mean() - called_judge(made.detach()).mean()).backward()
        optimizers[1].step()
        optimizers[0].zero_grad()
        called_judge(made).mean().backward()
        optimizers[0].step()
    return {
        f"{k} {name}": v
        for k, net in enumerate((maker, judge))
        for name, v in whole_weights(net).items()
    }


def skips(wrap):
    """In its second step nothing is updated, and the gradients are thrown away."""
    model = Net()
    called = wrap(model)
    optimizer = SGD(called.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = inputs(step)
        optimizer.zero_grad()
        F.cross_entropy(called(x), y).backward()
        if step != 1:
            optimizer.step()
    return whole_weights(model)


def scaled(wrap):
    """A gradient scaler leaves the second step out: its loss is infinite."""
    model = Net()
    called = wrap(model)
    optimizer = SGD(called.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for step in range(STEPS):
        x, y = inputs(step)
        loss = F.cross_entropy(called(x), y) * (float("inf") if step == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return whole_weights(model)


def unshards():
    """FSDP2's explicit prefetching: the root is gathered before its forward is called."""
    model = sharded()
    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
    optimizer = SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        model.unshard()
        x, y = inputs(step)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
    return whole_weights(model)


def owners_by_hand():
    """ZeRO-1 by hand: each parameter is updated by one rank, which then sends it to all."""
    model = Net()
    num_ranks, rank = dist.get_world_size(), dist.get_rank()
    parameters = list(model.parameters())
    optimizer = SGD(parameters[rank::num_ranks], lr=0.1)
    for step in range(STEPS):
        x, y = inputs(step)
        F.cross_entropy(model(x), y).backward()
        for parameter in parameters:
            dist.all_reduce(parameter.grad)
        optimizer.step()
        for place, parameter in enumerate(parameters):
            dist.broadcast(parameter.data, place % num_ranks)
        model.zero_grad()
    return whole_weights(model)


def evaluates_with_gradients(wrap):
    """An evaluation that forgets `no_grad`, after each step."""
    model = Net()
    called = wrap(model)
    optimizer = SGD(called.parameters(), lr=0.1)
    for step in range(STEPS):
        x, y = inputs(step)
        F.cross_entropy(called(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        called(x)
    return whole_weights(model)


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


class Exchange(torch.autograd.Function):
    """Rows to other ranks and from them; their gradients go the other way."""

    @staticmethod
    def forward(ctx, x, sent, received):
        ctx.ways = received, sent
        result = x.new_empty(sum(received), *x.shape[1:])
        dist.all_to_all_single(result, x.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient, *ctx.ways), None, None


def routes(rank, num_ranks):
    """Tokens that a rank sends to each expert, and gets from each rank: most go to the first."""
    last = num_ranks - 1
    sent = {0: {0: 3, last: 1}}.get(rank, {0: 4})
    received = {0: [3] + [4] * last, last: [1] + [0] * last}.get(rank, [0] * num_ranks)
    return tuple(sent.get(other, 0) for other in range(num_ranks)), tuple(received)


class ExpertNet(Net):
    """A mixture of experts, one on each rank, behind the blocks; the router is a rule."""

    def __init__(self):
        super().__init__()
        self.experts = (Block(),)  # of this rank, so no part of what is alike on all

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        num_ranks = dist.get_world_size()
        sent = torch.tensor(routes(dist.get_rank(), num_ranks)[0])
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        ways = sent.tolist(), received.tolist()
        there = Exchange.apply(x, *ways)
        return self.head(Exchange.apply(self.experts[0](there), *ways[::-1]))


def experts():
    model = ExpertNet()
    of_expert = dict(model.experts[0].named_parameters())
    optimizer = AdamW([*model.parameters(), *of_expert.values()], lr=0.01)
    train(DistributedDataParallel(model), optimizer=optimizer)
    return whole_weights(model) | {f"expert.{name}": p.detach() for name, p in of_expert.items()}


class Pair(nn.Module):
    """Two models that DDP wraps one by one."""

    def __init__(self):
        super().__init__()
        self.encoder = DistributedDataParallel(nn.Linear(INPUT, WIDTH))
        self.decoder = DistributedDataParallel(Net())
        self.between = nn.Linear(WIDTH, INPUT).requires_grad_(requires_grad=False)

    def forward(self, x):
        return self.decoder(self.between(self.encoder(x)))


def several_trainings(folder):
    """One after another in one process: two models together, then another that FSDP2 divides."""
    with zerosim.trace(folder):
        train(Pair(), steps=2)
        gc.collect()
        train(blocks_sharded(Net()), steps=2)
        dist.barrier()


BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
FSDP1_BF16 = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def programs(num_ranks):
    """By name."""
    strategy = ShardingStrategy
    found = {
        "ddp": ddp,
        "ddp, small buckets": lambda: ddp(bucket_cap_mb=0.0005, gradient_as_bucket_view=True),
        "ddp, buffers, unused": lambda: ddp(NormNet, find_unused_parameters=True),
        "ddp, buffers, static graph": lambda: ddp(NormNet, static_graph=True),
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
        "experts": experts,
        "evaluates, fsdp2": lambda: evaluates(blocks_sharded),
        "evaluates, fsdp1": lambda: evaluates(flat_blocks),
        "adversaries, ddp": lambda: adversaries(DistributedDataParallel),
        "adversaries, fsdp2": lambda: adversaries(blocks_sharded),
        "generator and judge, ddp": lambda: generator_and_judge(DistributedDataParallel),
        "generator and judge, fsdp2": lambda: generator_and_judge(judge_sharded),
        "generator and judge apart, fsdp2": lambda: generator_and_judge(judge_sharded, apart=True),
        "skips, ddp": lambda: skips(DistributedDataParallel),
        "skips, fsdp2": lambda: skips(blocks_sharded),
        "scaled, fsdp2": lambda: scaled(blocks_sharded),
        "unshards, fsdp2": unshards,
        "hand-written, owners": owners_by_hand,
        "with gradients, ddp": lambda: evaluates_with_gradients(DistributedDataParallel),
        "with gradients, fsdp2": lambda: evaluates_with_gradients(blocks_sharded),
        "language model, ddp": lambda: language_model(DistributedDataParallel),
        "language model, fsdp2": lambda: language_model(layers_sharded),
        "language model, checkpoints": lambda: language_model(layers_sharded, checkpointed=True),
    }
    if num_ranks == 4:
        kept = (
            "ddp",
            "experts",
            "zero redundancy",
            "fsdp2",
            "fsdp2, bf16",
            "fsdp1",
            "fsdp1, no_sync",
        )
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


def told(num_ranks):
    """Programs of which the headline matters, each run once: by name.

    The unlabelled one comes first: its parameters are then the only ones in the process.
    """
    if num_ranks == 4:
        return {"divided by hand": divided_by_hand}
    return {
        "shards flat by hand": lambda: shards_by_hand(flat=True),
        "beside ddp": beside_ddp,
        "frozen, ddp": mostly_frozen,
        "frozen, fsdp2": lambda: mostly_frozen(shards=True),
        "frozen below, fsdp2": lambda: fsdp2(FrozenBelow),
        "shards by hand": shards_by_hand,
        "messages by hand": messages_by_hand,
        "Muon, fsdp2": updated_by_muon,
        "replicated": replicated,
        "local SGD": local_sgd,
        "PowerSGD": compressed_by_power_sgd,
        "joins": joins,
        "messages late": messages_late,
    }


def run_told(folder):
    """Trace each of them."""
    for name, program in told(dist.get_world_size()).items():
        run_traced(name, program, folder)


LATER = {
    2: {
        "ddp, own hook",  # as the one of PyTorch that is in Python as well
        "fsdp2, accumulates",  # as those that say what becomes of the first backward
        "fsdp1, shards gradients",  # as with no_sync
        # that iterations alternate is the same with each system
        "adversaries, fsdp2",
        "generator and judge, fsdp2",
        "with gradients, fsdp2",
        # as the one that FSDP2 divides, and as checkpoints of other models
        "language model, ddp",
        "language model, checkpoints",
    },
    # as on two ranks
    4: {"ddp", "zero redundancy", "fsdp2, bf16", "fsdp1, no_sync"},
}
"""Programs that do nothing that another one does not; `make test-long` runs them."""


def run_all(folder, names):
    """Run these programs twice each; returns what each showed."""
    found = programs(dist.get_world_size())
    return {name: run_twice(name, found[name], folder) for name in names}


def run_told_and(folder, names):
    """Run those of `told`, which come first, then these programs."""
    run_told(folder)
    return run_all(folder, names)
