"""Models small enough for a laptop, and the real text that they train on."""

from zerosim.base.config.shapes import GPTConfig
from zerosim.train.models.catalogue import build, context_of, gpt_config
from zerosim.train.models.gpt import GPT, next_byte_loss
from zerosim.train.models.mlp import MLP, MLPConfig
from zerosim.train.models.text import (
    Batches,
    train_text,
    unigram_loss,
    validation_text,
    whole_text,
)

__all__ = [
    "GPT",
    "MLP",
    "Batches",
    "GPTConfig",
    "MLPConfig",
    "build",
    "context_of",
    "gpt_config",
    "next_byte_loss",
    "train_text",
    "unigram_loss",
    "validation_text",
    "whole_text",
]
