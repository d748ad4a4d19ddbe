"""The models that `zerosim run --model` knows, by name.

    gpt-tiny     3,307,008 parameters    4 blocks of width 256, context 64
    gpt-small   25,547,776 parameters    8 blocks of width 512, context 128
    mlp            271,360 parameters    3 hidden layers of 256 that read 8 bytes, context 64

`zerosim simulate --model` also knows these, which no single machine can train:

    gpt-2              124,439,808 parameters    12 blocks of width 768, context 1024
    gpt-3          174,604,259,328 parameters    96 blocks of width 12288, context 2048
    zero-7.5b        7,459,729,408 parameters    36 blocks of width 4096, context 1024
    zero-128b      127,675,342,848 parameters    158 blocks of width 8192, context 1024
    zero-1t      1,007,988,403,200 parameters    128 blocks of width 25600, context 1024
    llama-3-8b       8,030,261,248 parameters    32 blocks of width 4096, context 8192
    llama-3-70b     70,553,706,496 parameters    80 blocks of width 8192, context 8192
    llama-3-405b   405,853,388,800 parameters    126 blocks of width 16384, context 8192

`config.shapes` has their sizes, with sources. A model of a Hugging Face configuration
is a GPT or a Llama as well (`config.model`).
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from zerosim.base.config import ModelFile, ModelName, Shape
from zerosim.base.config.model import trained_model
from zerosim.base.config.shapes import GPTConfig, LlamaConfig
from zerosim.base.errors import ConfigError
from zerosim.train.models.gpt import GPT
from zerosim.train.models.llama import Llama
from zerosim.train.models.mlp import MLP, MLPConfig

_MLP = MLPConfig(window=8, embedding=32, width=256, context=64)


_USUAL = Shape()


def context_of(name: ModelName | ModelFile, shape: Shape = _USUAL) -> int:
    """Number of bytes predicted in one sequence; a row of a batch has one byte more."""
    return shape.context_length or _config(name).context


def heads_of(name: ModelName | ModelFile, shape: Shape = _USUAL) -> int:
    """Number of attention heads of a GPT or a Llama."""
    return trained_model(name, shape).heads


def num_parameters_of(name: ModelName | ModelFile) -> int:
    """Number of parameters of a model that is too large to be built here."""
    return trained_model(name).num_parameters


def _config(name: ModelName | ModelFile) -> GPTConfig | LlamaConfig | MLPConfig:
    return _MLP if name is ModelName.MLP else trained_model(name)


def gpt_config(name: ModelName | ModelFile, shape: Shape = _USUAL) -> GPTConfig:
    """The size of a GPT, with the overrides of `shape`.

    Raises:
        ConfigError: it is not a GPT, or its heads do not divide the width.
    """
    config = trained_model(name, shape)
    if not isinstance(config, GPTConfig):
        raise ConfigError(f"model is {name}, a Llama: expected a GPT, such as gpt-tiny")
    return config


def build(
    name: ModelName | ModelFile,
    seed: int,
    *,
    tied: bool = False,
    shape: Shape = _USUAL,
) -> nn.Module:
    """Build a model with seeded weights.

    The weights depend only on the arguments, so that every rank and every device starts with the
    same weights; the state of torch's own generators is not changed.

    Args:
        name: the model.
        seed: seed of the initial weights.
        tied: whether the head's matrix is the token embedding; not for the mlp.
        shape: overrides of the sizes of that name; not for the mlp.

    Returns:
        The model on the CPU in fp32. Its forward takes int64 [B, context + 1] and returns the
        loss.

    Raises:
        ConfigError: an option that the model does not have, or a width that its heads do not
            divide.
    """
    if tied and name is ModelName.MLP:
        raise ConfigError("tied is True: the mlp has no equal shapes to tie; try gpt-tiny")
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        if name is ModelName.MLP and shape.is_usual:
            return MLP(_MLP)
        config = trained_model(name, shape)
        config = replace(config, tied=tied or config.tied)
        return Llama(config) if isinstance(config, LlamaConfig) else GPT(config)
