"""The models that `zerosim run --model` knows, by name.

    gpt-tiny     3,307,008 parameters    4 blocks of width 256, context 64
    gpt-small   25,547,776 parameters    8 blocks of width 512, context 128
    mlp            271,360 parameters    3 hidden layers of 256 that read 8 bytes, context 64

Imports nothing but torch and the L0 modules of zerosim.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from zerosim.config import ModelName
from zerosim.errors import ConfigError
from zerosim.models.gpt import GPT, GPTConfig
from zerosim.models.mlp import MLP, MLPConfig

_GPT = {
    ModelName.GPT_TINY: GPTConfig(layers=4, width=256, heads=4, context=64),
    ModelName.GPT_SMALL: GPTConfig(layers=8, width=512, heads=8, context=128),
}
_MLP = MLPConfig(window=8, embedding=32, width=256, context=64)


def context_of(name: ModelName) -> int:
    """Number of bytes guessed in one sequence; a row of a batch holds one byte more."""
    return _MLP.context if name is ModelName.MLP else _GPT[name].context


def heads_of(name: ModelName) -> int:
    """Number of attention heads of a GPT."""
    return _GPT[name].heads


def gpt_config(name: ModelName, layers: int | None = None, width: int | None = None) -> GPTConfig:
    """The size of a GPT, with other layers or another width than its name stands for.

    Raises:
        ConfigError: it is no GPT, or its heads do not divide the width.
    """
    if name is ModelName.MLP:
        raise ConfigError("layers and width are of a GPT: expected model gpt-tiny or gpt-small")
    usual = _GPT[name]
    config = replace(usual, layers=layers or usual.layers, width=width or usual.width)
    if config.width % config.heads:
        raise ConfigError(f"width is {width}: expected a multiple of the {config.heads} heads")
    return config


def build(
    name: ModelName,
    seed: int,
    *,
    tied: bool = False,
    layers: int | None = None,
    width: int | None = None,
) -> nn.Module:
    """Build a model with seeded weights.

    The weights depend on nothing but the arguments, so that every rank and every device starts
    from the same; the state of torch's own generators is left as it was.

    Args:
        name: which model.
        seed: of the initial weights.
        tied: GPT only: the head's matrix is the token embedding.
        layers, width: GPT only: in place of what the name stands for.

    Returns:
        The model on the CPU in fp32. Its forward takes int64 [B, context + 1] and returns the
        loss.

    Raises:
        ConfigError: something was asked of a model that has no such thing, or a width that its
            heads do not divide.
    """
    if tied and name is ModelName.MLP:
        raise ConfigError("tied is True: the mlp has no two matrices of one shape, try gpt-tiny")
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if name is ModelName.MLP and not (layers or width):
            return MLP(_MLP)
        return GPT(replace(gpt_config(name, layers, width), tied=tied))
