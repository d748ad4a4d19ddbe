"""Shared by all implementations: the step, the optimizer, the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from zerosim.base.config import RunConfig
from zerosim.train.models import build

LEARNING_RATE = 1e-3
"""The default of zerosim's engine."""

Step = Callable[[int], float | None]
"""Does the optimizer step of this number; returns this rank's loss, None if it has none."""


def model_of(run: RunConfig) -> nn.Module:
    """The model with its first weights, the same on every rank."""
    return build(run.model, run.seed, shape=run.shape)


def adam(parameters: Iterable[Any]) -> torch.optim.Optimizer:
    """AdamW as in zerosim's engine."""
    return torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0, fused=True)


def plain_step(
    module: nn.Module, optimizer: torch.optim.Optimizer, data: Callable[[int], torch.Tensor]
) -> Step:
    """Forward, backward, update: the loop of most programs.

    Args:
        data: this rank's tokens of an iteration.
    """

    def step(iteration: int) -> float:
        loss = module(data(iteration))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        value: float = loss.item()
        return value

    return step


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The blocks of a GPT, or the hidden layers of the MLP."""
    container = getattr(model, "blocks", None) or getattr(model, "hidden", None)
    assert isinstance(container, nn.ModuleList | nn.Sequential), "a model of ours has blocks"
    return list(container)
