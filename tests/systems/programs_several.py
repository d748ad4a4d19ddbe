"""Programs with several optimizers, or several models, on one rank."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.optim import SGD, Adafactor, AdamW

from tests.systems.programs_questions import CLASSES, STEPS, WIDTH, Layers, wrapped
from tests.systems.witness import run_traced


def optimizers(kind, first, second, **options):
    """The matrices of the layers have another optimizer than everything else."""
    model = wrapped(kind, Layers(), **options)
    named = list(model.named_parameters())
    matrices = [one for name, one in named if "layers" in name and "weight" in name]
    others = [one for name, one in named if not ("layers" in name and "weight" in name)]
    pair = first(matrices), second(others)
    for _ in range(STEPS):
        model(torch.randn(2, WIDTH)).square().mean().backward()
        for one in pair:
            one.step()
        for one in pair:
            one.zero_grad()
    return {}


def adam(parameters, **options):
    return AdamW(parameters, lr=0.01, **options)


def heavy(parameters):
    return SGD(parameters, lr=0.01, momentum=0.9)


def plain(parameters):
    return SGD(parameters, lr=0.01)


def redundant(kind, **options):
    from torch.distributed.optim import ZeroRedundancyOptimizer  # warns as it is imported

    return lambda parameters: ZeroRedundancyOptimizer(parameters, kind, lr=0.01, **options)


def adversaries(kind):
    """A generator and its critic, each with its own optimizer, one after the other."""
    generator, critic = wrapped(kind, Layers()), wrapped(kind, Critic())
    of_generator, of_critic = adam(generator.parameters()), adam(critic.parameters())
    for _ in range(STEPS):
        made = generator(torch.randn(2, WIDTH))
        critic(made.detach()).mean().backward()
        of_critic.step()
        of_critic.zero_grad()
        critic(generator(torch.randn(2, WIDTH))).mean().backward()
        of_generator.step()
        of_generator.zero_grad()
        of_critic.zero_grad()
    return {}


class Critic(nn.Module):
    """Judges what a generator made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(CLASSES, WIDTH), nn.Linear(WIDTH, 1)])

    def forward(self, x):
        return self.layers[1](torch.relu(self.layers[0](x)))


def distils(teacher_kind, kind, *, freezes=True):
    """A student learns from a teacher that is not trained, and in no system if of no kind."""
    teacher = Layers().requires_grad_(not freezes)
    teacher = wrapped(teacher_kind, teacher) if teacher_kind else teacher
    student = wrapped(kind, Layers())
    optimizer = adam(student.parameters())
    for _ in range(STEPS):
        x = torch.randn(2, WIDTH)
        with torch.no_grad():
            wanted = teacher(x)
        (student(x) - wanted).square().mean().backward()
        del wanted
        optimizer.step()
        optimizer.zero_grad()
    return {}


def meets_another(kind):
    """In the middle of its training a model is computed with that is gone afterwards."""
    model = wrapped(kind, Layers())
    optimizer = adam(model.parameters())
    for step in range(STEPS + 1):
        if step in (1, 2):
            with torch.no_grad():
                other = nn.Linear(WIDTH, WIDTH)
                other(torch.randn(2, WIDTH))
        else:
            other = None
        model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert other is None
    return {}


def comes_later(kind):
    """A critic is trained for the first time after the actor was, and both in turn from then on."""
    actor, critic = wrapped(kind, Layers()), wrapped(kind, Critic())
    pair = [(actor, adam(actor.parameters()), WIDTH), (critic, adam(critic.parameters()), CLASSES)]
    for _ in range(STEPS):
        for model, optimizer, width in pair:
            model(torch.randn(2, width)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {}


def divided_matrices():
    """Tensor parallel: divided matrices and all that is whole have different optimizers."""
    net = nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, WIDTH), nn.LayerNorm(WIDTH))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    whole = list(model[3].parameters())
    pair = plain([*model[0].parameters(), *model[2].parameters()]), adam(whole)
    for _ in range(STEPS):
        model(torch.ones(2, WIDTH)).square().mean().backward()
        for one in pair:
            one.step()
            one.zero_grad()
    return {}


def thaws():
    """A layer is frozen at first, and joins the optimizer later."""
    model = wrapped("fsdp2", Layers().requires_grad_(False))
    model.head.requires_grad_(True)
    optimizer = adam(model.head.parameters())
    for step in range(STEPS + 2):
        if step == 2:
            model.layers[3].requires_grad_(True)
            optimizer.add_param_group({"params": list(model.layers[3].parameters())})
        model(torch.randn(2, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {}


PROGRAMS = {
    "ddp, comes later": lambda: comes_later("ddp"),
    "fsdp2, comes later": lambda: comes_later("fsdp2"),
    "tensor parallel, sgd and adam": divided_matrices,
    "fsdp2, thaws": thaws,
    "ddp, another model for a while": lambda: meets_another("ddp"),
    "ddp, sgd and adam": lambda: optimizers("ddp", plain, adam),
    "ddp, adafactor": lambda: optimizers("ddp", lambda some: Adafactor(some, lr=0.01), adam),
    "ddp, amsgrad": lambda: optimizers("ddp", lambda some: adam(some, amsgrad=True), adam),
    "fsdp2, momentum and adam": lambda: optimizers("fsdp2", heavy, adam),
    "fsdp1, momentum and adam": lambda: optimizers("fsdp1", heavy, adam, use_orig_params=True),
    "two of zero": lambda: optimizers("ddp", redundant(SGD, momentum=0.9), redundant(AdamW)),
    "zero and sgd": lambda: optimizers("ddp", redundant(AdamW), plain),
    "zero and adam": lambda: optimizers("ddp", redundant(SGD), adam),
    "ddp, adversaries": lambda: adversaries("ddp"),
    "fsdp2, adversaries": lambda: adversaries("fsdp2"),
    "ddp, a teacher in no system": lambda: distils("", "ddp"),
    "fsdp2, a teacher in no system": lambda: distils("", "fsdp2"),
    "fsdp2, a teacher not frozen": lambda: distils("", "fsdp2", freezes=False),
    "ddp, a teacher under fsdp2": lambda: distils("fsdp2", "ddp"),
}


def run_all(folder):
    """Run them one after the other, each traced into a folder of its name."""
    for name, program in PROGRAMS.items():
        run_traced(name, program, folder)
