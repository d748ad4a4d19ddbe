"""Small models of the kinds that people train, and their data."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, HIDDEN, INPUT, CLASSES = 6, 10, 5, 3


class Block(nn.Module):
    """148 parameters."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, HIDDEN)
        self.down = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    """Two blocks between a stem and a head; blocks may be checkpointed."""

    def __init__(self, *, checkpointed=None):
        super().__init__()
        self.stem = nn.Linear(INPUT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.checkpointed = checkpointed

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            if self.checkpointed is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.checkpointed == "reentrant")
        return self.head(x)


class NormNet(nn.Module):
    """With buffers, and with a layer that its forward never calls."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(INPUT, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.unused = nn.Linear(WIDTH, WIDTH)
        self.last = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


class ModelOutput(OrderedDict):
    """What models return where names are wanted: a dict with attributes."""

    def __getattr__(self, name):
        return self[name]


@dataclass
class Config:
    """What a model is built from."""

    vocab_size: int = 11
    hidden_size: int = 8
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    tie_word_embeddings: bool = True


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.c_attn = nn.Linear(config.hidden_size, 3 * config.hidden_size)
        self.c_proj = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden_states, attention_mask=None):
        shape = (*hidden_states.shape[:2], self.num_heads, -1)
        parts = self.c_attn(hidden_states).chunk(3, dim=-1)
        query, key, value = (part.view(shape).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
        return self.c_proj(mixed.transpose(1, 2).flatten(2)), None


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.hidden_size)
        self.attn = Attention(config)
        self.ln_2 = nn.LayerNorm(config.hidden_size)
        self.mlp = nn.Sequential(
            nn.Linear(config.hidden_size, 4 * config.hidden_size),
            nn.GELU(),
            nn.Linear(4 * config.hidden_size, config.hidden_size),
        )

    def forward(self, hidden_states, *, attention_mask=None):
        hidden_states = hidden_states + self.attn(self.ln_1(hidden_states), attention_mask)[0]
        return (hidden_states + self.mlp(self.ln_2(hidden_states)),)


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.h = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.ln_f = nn.LayerNorm(config.hidden_size)
        self.gradient_checkpointing = False

    def forward(self, input_ids=None, attention_mask=None):
        hidden_states = self.wte(input_ids)
        for layer in self.h:
            if self.gradient_checkpointing and self.training:
                outputs = checkpoint(
                    layer, hidden_states, attention_mask=attention_mask, use_reentrant=False
                )
            else:
                outputs = layer(hidden_states, attention_mask=attention_mask)
            hidden_states = outputs[0]
        return ModelOutput(last_hidden_state=self.ln_f(hidden_states))


class LMHeadModel(nn.Module):
    """Nested, called by keywords, returns a dict with its loss in it, and ties its weights."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = Transformer(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.transformer.wte.weight

    def gradient_checkpointing_enable(self):
        self.transformer.gradient_checkpointing = True

    def forward(self, input_ids=None, attention_mask=None, labels=None):
        hidden_states = self.transformer(input_ids=input_ids, attention_mask=attention_mask)
        logits = self.lm_head(hidden_states.last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return ModelOutput(loss=loss, logits=logits)


def inputs(step):
    """A batch of this rank."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    x = torch.randn(4, INPUT, generator=generator)
    return x, torch.randint(CLASSES, (4,), generator=generator)


def tokens(step):
    """A batch of this rank for a language model."""
    generator = torch.Generator().manual_seed(100 * step + dist.get_rank())
    return torch.randint(Config().vocab_size, (2, 5), generator=generator)


def whole_weights(model):
    """Its parameters, gathered where they are divided."""
    found = {}
    for name, parameter in model.named_parameters():
        full = getattr(parameter, "full_tensor", None)
        found[name] = (full() if full else parameter).detach().clone()
    return found
