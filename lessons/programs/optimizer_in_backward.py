"""Training in pure bf16, with the optimizer in backward: no fp32 master, no gradient that is kept.

Adam is applied to a parameter as soon as its gradient is accumulated, and the gradient is freed, as
PyTorch's tutorial "How to save memory by fusing the optimizer step into the backward pass" does.
Momentum and variance stay in fp32. Started by torchrun with one rank and the options of `zerosim
run`; it reads the folder of the trace.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import argparse
from functools import partial

import torch

import zerosim
from zerosim.base.config import ModelName
from zerosim.schema.events import Phase
from zerosim.schema.memory import Role
from zerosim.trace import labels
from zerosim.trace.holdings import hold
from zerosim.train.models import Batches, build, context_of

LEARNING_RATE, BETAS, EPSILON, STEPS = 1e-3, (0.9, 0.95), 1e-8, 2


def update(
    momentum: torch.Tensor, variance: torch.Tensor, count: list[int], parameter: torch.Tensor
) -> None:
    """One parameter's part of Adam, and the end of its gradient."""
    assert parameter.grad is not None
    gradient = parameter.grad.float()
    parameter.grad = None
    count[0] += 1
    momentum.lerp_(gradient, 1 - BETAS[0])
    variance.lerp_(gradient.square(), 1 - BETAS[1])
    right = [1 - beta ** count[0] for beta in BETAS]
    change = (momentum / right[0]) / ((variance / right[1]).sqrt() + EPSILON)
    with torch.no_grad():
        parameter.add_(change.to(parameter.dtype), alpha=-LEARNING_RATE)


def main() -> None:
    """Train for two steps, recorded."""
    given = argparse.ArgumentParser()
    given.add_argument("--out")
    folder = given.parse_known_args()[0].out
    model = build(ModelName.GPT_TINY, seed=0).bfloat16()
    batches = Batches(seed=0, rank=0, num_ranks=1, batch=2, context=context_of(ModelName.GPT_TINY))
    with zerosim.trace(folder):
        for parameter in model.parameters():
            momentum, variance = (torch.zeros_like(parameter, dtype=torch.float32) for _ in BETAS)
            hold(momentum, Role.MOMENTUM, "")
            hold(variance, Role.VARIANCE, "")
            change = partial(update, momentum, variance, [0])
            parameter.register_post_accumulate_grad_hook(change)
        for iteration in range(STEPS):
            labels.enter(iteration, Phase.FORWARD)
            loss = model(batches.at(iteration))
            labels.enter(iteration, Phase.BACKWARD)
            loss.backward()
            labels.enter(iteration, Phase.UPDATE)
        labels.enter(STEPS, Phase.OUTSIDE)


if __name__ == "__main__":
    main()
