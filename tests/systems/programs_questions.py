"""Programs that people asked about, in small: switches, unused parameters, updates by hand."""

from __future__ import annotations

from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.optim import LBFGS, AdamW
from torch.optim.swa_utils import AveragedModel
from torch.utils.checkpoint import checkpoint

from tests.systems.witness import run_traced

WIDTH, CLASSES = 16, 4
STEPS = 3


class Layers(nn.Module):
    """Four layers and a head; a test says which layers a forward calls."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.called = [0, 1, 2, 3]

    def forward(self, x):
        for place in self.called:
            x = torch.relu(self.layers[place](x))
        return self.head(x)


def train(
    model, *, micro_steps=1, steps=STEPS, before=lambda *_: None, unsynced=nullcontext, **how
):
    """A training loop.

    Args:
        before: is called with the step and the micro-step.
        unsynced: makes a context for each micro-step but the last.
        how: the optimizer clears its gradients.
    """
    optimizer = AdamW(model.parameters(), lr=0.01)
    for step in range(steps):
        for micro_step in range(micro_steps):
            before(step, micro_step)
            with nullcontext() if micro_step == micro_steps - 1 else unsynced():
                model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(**how)
    return {}


def wrapped(kind, net, **options):
    """A model of four layers as a system divides it."""
    if kind == "ddp":
        return DistributedDataParallel(net, **options)
    if kind == "fsdp1":
        policy = ModuleWrapPolicy({nn.Linear})
        return FullyShardedDataParallel(
            net, auto_wrap_policy=policy, device_id=torch.device("cpu"), **options
        )
    for layer in net.layers:
        fully_shard(layer, **options)
    return fully_shard(net, **options)


def calls_fewer(kind, *, last=STEPS - 1, called=(0, 1, 3), how=None, **options):
    """From its last step on a forward calls three layers of four."""
    net = Layers()

    def before(step, _):
        net.called = list(called) if step >= last else [0, 1, 2, 3]

    return train(wrapped(kind, net, **options), steps=last + 1, before=before, **(how or {}))


def one_step_unused():
    """DDP's first step leaves a layer out, and there is no second."""
    net = Layers()
    net.called = [0, 1, 2]
    return train(wrapped("ddp", net), steps=1)


def ignored():
    """DDP is told to ignore a layer."""
    net = Layers()
    names = ["layers.1.weight", "layers.1.bias"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, names)
    return train(DistributedDataParallel(net))


def unused_root(kind):
    """The root has a layer that its forward never calls."""
    net = Layers()
    net.unused = nn.Linear(WIDTH, WIDTH)
    return train(wrapped(kind, net))


def reduced_late():
    """HSDP: the sums are all-reduced over the replicas in the last micro-step."""
    mesh = init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("r", "s"))
    model = wrapped("fsdp2", Layers(), mesh=mesh)
    return train(
        model, micro_steps=2, before=lambda _, micro: model.set_requires_all_reduce(micro == 1)
    )


def beside_a_reference(kind, *, num_forwards=2):
    """A loss of several forwards, held against a frozen model that computes without gradients."""
    reference = Layers().requires_grad_(False)
    reference, model = wrapped(kind, reference), wrapped(kind, Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = torch.randn(2, WIDTH)
        with torch.no_grad():
            wanted = reference(x)
        sum((model(x) - wanted).square().mean() for _ in range(num_forwards)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return {}


def accumulated(kind, **options):
    """Three micro-steps, of which the last reduces."""
    model = wrapped(kind, Layers(), **options)
    if kind == "fsdp1":
        return train(model, micro_steps=3, unsynced=model.no_sync)
    return train(
        model, micro_steps=3, before=lambda _, micro: model.set_requires_gradient_sync(micro == 2)
    )


def freed_by_hand():
    net = wrapped("fsdp2", Layers(), reshard_after_forward=False)
    optimizer = AdamW(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = net(torch.randn(2, WIDTH)).square().mean()
        net.layers[1].reshard()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return {}


def kept_after_backward():
    net = wrapped("fsdp2", Layers())
    net.set_reshard_after_backward(False)
    return train(net, micro_steps=2)


def updated_by_hand(reduced=torch.float32, gathered=torch.bfloat16):
    """Copies of gradients are reduce-scattered, a rank's part is updated and all parts gathered."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    net = Layers()
    parameters = list(net.parameters())
    flat = torch.cat([one.data.flatten() for one in parameters])
    padding = -len(flat) % num_ranks
    size = (len(flat) + padding) // num_ranks
    padded = nn.functional.pad(flat, (0, padding))
    master = padded.chunk(num_ranks)[rank].clone().requires_grad_()
    optimizer = AdamW([master], lr=0.01)
    for _ in range(STEPS):
        net(torch.randn(2, WIDTH)).square().mean().backward()
        copied = torch.cat([one.grad.flatten() for one in parameters]).to(reduced)
        mine = torch.empty(size, dtype=reduced)
        dist.reduce_scatter_tensor(mine, nn.functional.pad(copied, (0, padding)))
        master.grad = mine.float() / num_ranks
        optimizer.step()
        whole = torch.empty(size * num_ranks, dtype=gathered)
        dist.all_gather_into_tensor(whole, master.detach().to(gathered))
        place = 0
        for one in parameters:
            one.data.copy_(whole[place : place + one.numel()].view_as(one))
            place, one.grad = place + one.numel(), None
    return {}


def messages_between_steps(source=0, steps=tuple(range(STEPS))):
    """DDP, and after each of these steps a message that is larger than the model."""
    model = DistributedDataParallel(Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    large = torch.ones(10_000)
    for step in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step not in steps:
            continue
        if dist.get_rank() == source:
            call = dist.P2POp(dist.isend, large, 1 - source)
        else:
            call = dist.P2POp(dist.irecv, large, source)
        for work in dist.batch_isend_irecv([call]):
            work.wait()
    return {}


def evaluates(kind):
    """After each step the model computes without gradients, and some numbers are added up."""
    model = wrapped(kind, Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            model(torch.randn(2, WIDTH))
        dist.all_reduce(torch.ones(3))
    return {}


def joins():
    """Rank 1 has a batch more than rank 0, which keeps up with its calls (`join`)."""
    model = DistributedDataParallel(Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    with model.join():
        for _ in range(STEPS + dist.get_rank()):
            model(torch.randn(2, WIDTH)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {}


def hooked(hook):
    """DDP's gradients travel in fp16, in tensors that the hook makes."""
    model = DistributedDataParallel(Layers())
    model.register_comm_hook(None, hook)
    return train(model)


def searches():
    """LBFGS computes the loss itself, several times in a step, and remembers directions."""
    model = DistributedDataParallel(Layers())
    optimizer = LBFGS(model.parameters(), max_iter=2)
    for _ in range(STEPS):
        x = torch.randn(2, WIDTH)

        def closure(x=x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)
    return {}


def averages():
    """A running average of the weights stands beside the model, and never computes."""
    model = DistributedDataParallel(Layers())
    average = AveragedModel(model.module)
    train(model, before=lambda *_: average.update_parameters(model.module))
    return {}


def norm_by_hand():
    """After backward a norm is added up by hand."""
    model = DistributedDataParallel(Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
        norm = torch.stack([one.grad.norm() for one in model.parameters()]).norm()
        dist.all_reduce(norm)
        optimizer.step()
        optimizer.zero_grad()
    return {}


def updates_in_backward(kind):
    """Each parameter is updated as soon as it has its gradient, which is then thrown away."""
    model = wrapped(kind, Layers())
    optimizers = {one: AdamW([one], lr=0.01) for one in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for one in optimizers:
        one.register_post_accumulate_grad_hook(update)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
    return {}


def master_by_hand():
    """The program keeps fp32 copies of bf16 weights, and moves the gradients to them."""
    model = DistributedDataParallel(Layers().bfloat16())
    weights = list(model.parameters())
    masters = [one.detach().float().clone() for one in weights]
    optimizer = AdamW(masters, lr=0.01)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH).bfloat16()).float().square().mean().backward()
        for master, weight in zip(masters, weights, strict=True):
            master.grad, weight.grad = weight.grad.float(), None
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for master, weight in zip(masters, weights, strict=True):
                weight.copy_(master)
    return {}


def feeds_back():
    """PowerSGD, from the third step on; what it leaves out of a gradient is added to the next."""
    model = DistributedDataParallel(Layers())
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, steps=5)


class Checkpointed(Layers):
    """Each layer is computed again in backward."""

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(checkpoint(layer, x, use_reentrant=False))
        return self.head(x)


class Masked(Layers):
    """With a causal mask, which is a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(64, 64).tril())


def saves():
    """The whole state dict is gathered after each step."""
    model = wrapped("fsdp2", Layers())
    options = StateDictOptions(full_state_dict=True)
    optimizer = AdamW(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        get_model_state_dict(model, options=options)
    return {}


def quantized_by_hand():
    """Gradients as int8, and their scales, by all-to-all after backward."""
    net = Layers()
    optimizer = AdamW(net.parameters(), lr=0.01)
    for _ in range(STEPS):
        net(torch.randn(2, WIDTH)).square().mean().backward()
        for one in net.parameters():
            values = one.grad.flatten().to(torch.int8)
            scales = torch.ones(dist.get_world_size())
            dist.all_to_all_single(torch.empty_like(values), values)
            dist.all_to_all_single(torch.empty_like(scales), scales)
        optimizer.step()
        optimizer.zero_grad()
    return {}


def hoards(kind):
    """The outputs of each step are kept in a list, for statistics that are never computed."""
    model = wrapped(kind, Layers())
    optimizer = AdamW(model.parameters(), lr=0.01)
    kept = []
    for _ in range(STEPS):
        output = model(torch.randn(64, WIDTH))
        kept.append(output.detach())
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {}


def programs(num_ranks):
    """By name, what is called in each rank."""
    if num_ranks == 4:
        return {"hybrid, all-reduced late": reduced_late}
    return {
        "ddp, one step unused": one_step_unused,
        "ddp, unused later": lambda: calls_fewer("ddp", how={"set_to_none": False}),
        "ddp, unused in a later bucket": lambda: calls_fewer(
            "ddp", last=1, called=(0, 2, 3), bucket_cap_mb=0.001
        ),
        "ddp, finds unused": lambda: calls_fewer("ddp", find_unused_parameters=True),
        "ddp, ignored": ignored,
        "fsdp2, unused layer": lambda: calls_fewer("fsdp2"),
        "fsdp2, unused in the root": lambda: unused_root("fsdp2"),
        "fsdp2, beside a reference": lambda: beside_a_reference("fsdp2"),
        "fsdp2, three forwards": lambda: beside_a_reference("fsdp2", num_forwards=3),
        "fsdp1, beside a reference": lambda: beside_a_reference("fsdp1"),
        "fsdp2, accumulated": lambda: accumulated(
            "fsdp2",
            mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        ),
        "fsdp1, accumulated": lambda: accumulated("fsdp1"),
        "fsdp2, freed by hand": freed_by_hand,
        "fsdp2, kept after backward": kept_after_backward,
        "fsdp2, reduced in bf16": lambda: train(
            wrapped("fsdp2", Layers(), mp_policy=MixedPrecisionPolicy(reduce_dtype=torch.bfloat16))
        ),
        "updated by hand": updated_by_hand,
        "updated by hand, reduced in bf16": lambda: updated_by_hand(torch.bfloat16, torch.float32),
        "messages between steps": messages_between_steps,
        "messages to rank 0": lambda: messages_between_steps(source=1),
        "messages at first": lambda: messages_between_steps(source=1, steps=(0, 1)),
        "fsdp2, evaluates": lambda: evaluates("fsdp2"),
        "fsdp1, evaluates": lambda: evaluates("fsdp1"),
        "ddp, evaluates": lambda: evaluates("ddp"),
        "ddp, joins": joins,
        "ddp, compresses": lambda: hooked(fp16_compress_hook),
        "ddp, searches": searches,
        "ddp, averages": averages,
        "ddp, norm by hand": norm_by_hand,
        "fsdp2, updates in backward": lambda: updates_in_backward("fsdp2"),
        "ddp, master by hand": master_by_hand,
        "ddp, feeds back": feeds_back,
        "fsdp2, checkpointed": lambda: train(wrapped("fsdp2", Checkpointed())),
        "ddp, masked": lambda: train(wrapped("ddp", Masked(), broadcast_buffers=False)),
        "fsdp2, saves": saves,
        "quantized by hand": quantized_by_hand,
        "fsdp1, unused layer": lambda: calls_fewer("fsdp1"),
        "ddp, hoards": lambda: hoards("ddp"),
        "fsdp2, hoards": lambda: hoards("fsdp2"),
        "fsdp1, hoards": lambda: hoards("fsdp1"),
    }


def run_all(folder, names):
    """Run programs one after the other, each traced into a folder of its name."""
    for name in names:
        run_traced(name, programs(dist.get_world_size())[name], folder)
