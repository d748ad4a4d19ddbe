"""A GPT of GPT-2's shape, small and with random weights, in the manner of Hugging Face.

Where transformers is installed, its own classes are taken. Elsewhere these are, of the same names:
modules and parameters have the same names and sizes, the head is the embedding, and what is
returned has a loss if the model was given labels. What is sent in a step is the same; before it
transformers' model has masks beside its parameters, which are broadcast as well.
"""

# ruff: noqa: INP001 - a program beside the package, which never imports torch

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils._pytree import register_pytree_node


@dataclass
class GPT2Config:
    """The part of transformers' configuration that is read here."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    resid_pdrop: float = 0.0
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0


class CausalLMOutput(OrderedDict[str, torch.Tensor]):
    """What a model returns: its values by key, and by name."""

    def __getattr__(self, name: str) -> torch.Tensor:
        if name in self:
            return self[name]
        raise AttributeError(name)


register_pytree_node(
    CausalLMOutput,
    lambda output: (list(output.values()), list(output)),
    lambda values, names: CausalLMOutput(zip(names, values, strict=True)),
)


class Conv1D(nn.Module):
    """A linear layer whose weight is stored the other way round, as GPT-2's are."""

    def __init__(self, outputs: int, inputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(std=0.02))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The product."""
        product: torch.Tensor = x @ self.weight + self.bias
        return product


class GPT2Attention(nn.Module):
    """Every token looks at those before it."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.heads = config.n_head
        self.c_attn = Conv1D(3 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, config.n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Queries, keys and values, and the mean of values."""
        batch, tokens, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        query, key, value = (
            part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in parts
        )
        mean = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: torch.Tensor = self.c_proj(mean.transpose(1, 2).reshape(batch, tokens, width))
        return projected


class GPT2MLP(nn.Module):
    """Two layers, four times as wide between them."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * config.n_embd, config.n_embd)
        self.c_proj = Conv1D(config.n_embd, 4 * config.n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Up and down again."""
        projected: torch.Tensor = self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))
        return projected


class GPT2Block(nn.Module):
    """Attention and an MLP, each around a residual."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = GPT2Attention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = GPT2MLP(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block."""
        x = x + self.attn(self.ln_1(x))
        both: torch.Tensor = x + self.mlp(self.ln_2(x))
        return both


class GPT2Model(nn.Module):
    """All but the head."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.n_positions, config.n_embd)
        self.h = nn.ModuleList(GPT2Block(config) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)
        for embedding in (self.wte, self.wpe):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """What is known after each token."""
        x = self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))
        for block in self.h:
            x = block(x)
        normed: torch.Tensor = self.ln_f(x)
        return normed


class GPT2LMHeadModel(nn.Module):
    """The model that is trained."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.transformer = GPT2Model(config)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        """Scores of the next token; and how far they are from the labels, if there are any."""
        logits = self.lm_head(self.transformer(input_ids))
        if labels is None:
            return CausalLMOutput(logits=logits)
        said, meant = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        loss = functional.cross_entropy(said.float(), meant)
        return CausalLMOutput(loss=loss, logits=logits)


def small_gpt2(context: int) -> nn.Module:
    """Two layers of GPT-2's kind over bytes, the same weights on every rank."""
    torch.manual_seed(0)
    home: Any = (
        import_module("transformers") if find_spec("transformers") else sys.modules[__name__]
    )
    model: nn.Module = home.GPT2LMHeadModel(
        home.GPT2Config(
            vocab_size=256,
            n_positions=context,
            n_embd=64,
            n_layer=2,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )
    return model
