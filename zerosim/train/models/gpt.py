"""A small byte-level GPT: token and position, pre-LN blocks, a head, and the loss.

The layout is nanoGPT's (GPT-2 without dropout). Every parameter belongs to `embedding`, to one of
`blocks`, or to `head`, and is used only inside the forward of that submodule, so that each of these
can be gathered before it computes and freed afterwards.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from zerosim.base.config.shapes import GPTConfig


class Embedding(nn.Module):
    """The embedding of bytes and positions: (256 + s)h parameters."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Look up tokens [B, T]: [B, T, h]."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        vectors: Tensor = self.token(tokens) + self.position(positions)
        return vectors


class Attention(nn.Module):
    """Causal multi-head self-attention: 4h^2 + 4h parameters."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position of x [B, T, h] with those before it: [B, T, h]."""
        batch, time, width = x.shape
        split = (batch, time, 3, self.heads, width // self.heads)
        query, key, value = self.query_key_value(x).view(split).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        out: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, time, width))
        return out


class Block(nn.Module):
    """Attention, then an MLP, each added to its input: 12h^2 + 13h parameters."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Transform x [B, T, h] to [B, T, h]."""
        x = x + self.attention(self.attention_norm(x))
        out: Tensor = x + self.mlp(self.mlp_norm(x))
        return out


class Head(nn.Module):
    """The head, from vectors to a score for each byte: 2h + 256h parameters."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.linear = nn.Linear(config.width, config.vocabulary, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Score x [B, T, h]: [B, T, 256]."""
        scores: Tensor = self.linear(self.norm(x))
        return scores


class GPT(nn.Module):
    """A byte-level GPT whose forward returns its loss.

    It has L(12h^2 + 13h) + (512 + s)h + 2h parameters for L blocks of width h and context s;
    256h fewer if tied.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        assert config.width % config.heads == 0, "heads must divide width"
        self.config = config
        self.embedding = Embedding(config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = Head(config)
        if config.tied:
            self.head.linear.weight = self.embedding.token.weight
        self._initialise()

    def logits(self, tokens: Tensor) -> Tensor:
        """Score the byte after each position.

        Args:
            tokens: int64 [B, T], T at most `config.context`.

        Returns:
            Scores [B, T, 256] in the parameters' dtype.
        """
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(x)
        return scores

    def forward(self, tokens: Tensor) -> Tensor:
        """The mean cross-entropy of each next byte, in nats.

        Args:
            tokens: int64 [B, T + 1], T at most `config.context`.

        Returns:
            A scalar in fp32, whatever the parameters' dtype.
        """
        return next_byte_loss(self.logits(tokens[:, :-1]), tokens[:, 1:])

    @torch.no_grad()
    def _initialise(self) -> None:
        """Initialize every matrix to preserve the scale of its input; biases are 0.

        As in GPT-2, a matrix that adds to its block's input starts smaller and the head at 0.02, so
        that the first prediction is uniform. Embeddings start at 1, not at GPT-2's 0.02: relative
        to 0.02, a step of 1e-3 is so large that the loss jumps. If tied, the head decides.
        """
        embedding_std = 0.02 if self.config.tied else 1.0
        nn.init.normal_(self.embedding.position.weight, std=embedding_std)
        for name, module in self.blocks.named_modules():
            if isinstance(module, nn.Linear):
                std = module.in_features**-0.5
                if name.endswith(("attention.output", "mlp.2")):
                    std /= math.sqrt(2 * self.config.layers)
                nn.init.normal_(module.weight, std=std)
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.head.linear.weight, std=0.02)
        if not self.config.tied:
            nn.init.normal_(self.embedding.token.weight, std=embedding_std)


def next_byte_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """The mean cross-entropy of scores [B, T, 256] against bytes [B, T], in fp32 nats."""
    return F.cross_entropy(scores.flatten(0, 1).float(), targets.flatten())
