"""Models small enough for a laptop, and the real text that they train on.

May import torch and the L0 modules of zerosim, nothing else.
"""

from zerosim.config.shapes import GPTConfig
from zerosim.models.catalogue import build, context_of, gpt_config
from zerosim.models.gpt import GPT, next_byte_loss
from zerosim.models.mlp import MLP, MLPConfig
from zerosim.models.text import (
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
