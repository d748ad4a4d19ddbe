"""Llama 3 and models of its design (Mistral, Qwen2, Qwen3): their shapes, for dry runs.

Pre-norm blocks of grouped-query attention with rotary positions and a gated MLP (Grattafiori et
al., "The Llama 3 Herd of Models", arXiv 2407.21783, table 3). Qwen2 has biases of queries, keys and
values, Qwen3 norms of heads. As in `gpt`, every parameter belongs to `embedding`, to one of
`blocks`, or to `head`, and the forward is the loss.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerosim.base.config.shapes import LlamaConfig
from zerosim.train.models.gpt import next_byte_loss

_EPSILON = 1e-5


class LlamaAttention(nn.Module):
    """Causal attention with grouped queries: keys and values serve several queries each."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.heads, self.key_heads, self.theta = config.heads, config.key_heads, config.theta
        self.size = config.size
        queries, keys = self.size * config.heads, self.size * config.key_heads
        self.query = nn.Linear(config.width, queries, bias=config.has_bias)
        self.key = nn.Linear(config.width, keys, bias=config.has_bias)
        self.value = nn.Linear(config.width, keys, bias=config.has_bias)
        self.output = nn.Linear(queries, config.width, bias=False)
        self.has_head_norms = config.has_head_norms
        if self.has_head_norms:
            self.query_norm = nn.RMSNorm(self.size, eps=_EPSILON)
            self.key_norm = nn.RMSNorm(self.size, eps=_EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position of x [B, T, h] with those before it: [B, T, h]."""
        batch, time, _ = x.shape
        query = self.query(x).view(batch, time, self.heads, self.size).transpose(1, 2)
        key = self.key(x).view(batch, time, self.key_heads, self.size).transpose(1, 2)
        value = self.value(x).view(batch, time, self.key_heads, self.size).transpose(1, 2)
        if self.has_head_norms:
            query, key = self.query_norm(query), self.key_norm(key)
        angles = self._angles(time, x.device)
        query, key = _rotated(query, angles), _rotated(key, angles)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        out: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, time, -1))
        return out

    def _angles(self, time: int, device: torch.device) -> Tensor:
        """The rotation angle of each pair of elements at each position: [T, size / 2]."""
        places = torch.arange(0, self.size, 2, device=device, dtype=torch.float32)
        return torch.outer(
            torch.arange(time, device=device, dtype=torch.float32),
            self.theta ** (-places / self.size),
        )


def _rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate the pairs of elements of x [B, heads, T, size] by their position's angles."""
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


class GatedMLP(nn.Module):
    """3hf parameters: one matrix gates another (SwiGLU)."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Transform x [B, T, h] to [B, T, h]."""
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class LlamaBlock(nn.Module):
    """Attention, then an MLP, each added to its input."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(config.width, eps=_EPSILON)
        self.attention = LlamaAttention(config)
        self.mlp_norm = nn.RMSNorm(config.width, eps=_EPSILON)
        self.mlp = GatedMLP(config)

    def forward(self, x: Tensor) -> Tensor:
        """Transform x [B, T, h] to [B, T, h]."""
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class LlamaHead(nn.Module):
    """The head, from vectors to a score for each token."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(config.width, eps=_EPSILON)
        self.linear = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Score x [B, T, h]: [B, T, V]."""
        scores: Tensor = self.linear(self.norm(x))
        return scores


class Llama(nn.Module):
    """A Llama whose forward returns its loss."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.layers))
        self.head = LlamaHead(config)
        if config.tied:
            self.head.linear.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """The mean cross-entropy of each next token, in nats.

        Args:
            tokens: int64 [B, T + 1].

        Returns:
            A scalar in fp32, whatever the parameters' dtype.
        """
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        return next_byte_loss(self.head(x), tokens[:, 1:])
