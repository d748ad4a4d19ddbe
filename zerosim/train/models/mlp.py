"""A byte n-gram MLP: the smallest built-in model, for quick runs and tests.

It predicts the next byte from the `window` bytes before it (Bengio et al. 2003, "A Neural
Probabilistic Language Model"). Its units are `embedding`, the layers of `hidden`, and `head`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from zerosim.base.config.shapes import VOCABULARY
from zerosim.train.models.gpt import next_byte_loss


@dataclass(frozen=True, slots=True, kw_only=True)
class MLPConfig:
    """The size of an n-gram MLP.

    Attributes:
        window: number of previous bytes in the input, k.
        embedding: size of a byte's vector, e.
        width: size of each of the three hidden layers, h.
        context: number of predictions in a sequence.
    """

    window: int
    embedding: int
    width: int
    context: int


class MLP(nn.Module):
    """A byte n-gram MLP whose forward returns its loss.

    It has 256e + (ke + 1)h + 2(h + 1)h + (h + 1)256 parameters.
    """

    def __init__(self, config: MLPConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(VOCABULARY, config.embedding)
        widths = (config.window * config.embedding, config.width, config.width, config.width)
        self.hidden = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(inputs, outputs), nn.GELU())
                for inputs, outputs in pairwise(widths)
            )
        )
        self.head = nn.Linear(config.width, VOCABULARY)

    def logits(self, tokens: Tensor) -> Tensor:
        """Score the byte after each position.

        Args:
            tokens: int64 [B, T]. Positions before a sequence read as zero bytes.

        Returns:
            Scores [B, T, 256] in the parameters' dtype.
        """
        window = self.config.window
        before_each = F.pad(tokens, (window - 1, 0)).unfold(1, window, 1)  # [B, T, k]
        scores: Tensor = self.head(self.hidden(self.embedding(before_each).flatten(2)))
        return scores

    def forward(self, tokens: Tensor) -> Tensor:
        """The mean cross-entropy of each next byte, in nats.

        Args:
            tokens: int64 [B, T + 1].

        Returns:
            A scalar in fp32, whatever the parameters' dtype.
        """
        return next_byte_loss(self.logits(tokens[:, :-1]), tokens[:, 1:])
