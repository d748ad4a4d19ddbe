"""The training text of the built-in models, and its distribution to ranks and steps.

The text is the language reference that every Python includes for `help()` (`pydoc_data.topics`):
466 KB of real prose and grammar that need no download. It differs a little from one version of
Python to the next, and the losses with it.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pydoc_data.topics import topics

import torch
from torch import Tensor

TRAIN_SHARE = 0.9
"""The first nine tenths of the text are trained on. The rest is for validation; it is a little
more regular (3.14 nats by `unigram_loss`, against 3.26), so its loss may be the lower one."""


@cache
def whole_text() -> bytes:
    """All topics in the order of their names, a blank line between two."""
    return "\n\n".join(topics[name] for name in sorted(topics)).encode()


def train_text() -> bytes:
    """The part of `whole_text` for training."""
    return whole_text()[: _border()]


def validation_text() -> bytes:
    """The part of `whole_text` that is never used for training."""
    return whole_text()[_border() :]


def _border() -> int:
    return int(TRAIN_SHARE * len(whole_text()))


def unigram_loss(text: bytes) -> float:
    """Entropy of the bytes of `text` in nats: the loss of the best prediction without input.

    About 3.26 for this text; ln 256 = 5.55 is the loss before training.
    """
    counts = Counter(text).values()
    return -sum(count / len(text) * math.log(count / len(text)) for count in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The micro-batches of one rank, and of all ranks together.

    A micro-batch depends only on (seed, rank, iteration, micro-step). One process can
    therefore rebuild the input of any number of ranks, for the comparison with a run that is not
    distributed.

    Attributes:
        seed: seed of the order of the data.
        rank: the rank of the micro-batches of `at`.
        num_ranks: number of ranks that read together.
        batch: sequences in a micro-batch of one rank, B.
        context: bytes predicted in a sequence, s.
        text: the text to read.
    """

    seed: int
    rank: int
    num_ranks: int
    batch: int
    context: int
    text: bytes = field(default_factory=train_text, repr=False)

    def __post_init__(self) -> None:
        assert 0 <= self.rank < self.num_ranks, f"rank {self.rank} of {self.num_ranks}"
        assert len(self.text) > self.context, "the text is shorter than one sequence"

    def at(self, iteration: int, micro_step: int = 0) -> Tensor:
        """This rank's micro-batch: int64 [B, s + 1]."""
        return self.of_rank(self.rank, iteration, micro_step)

    def union(self, iteration: int, micro_step: int = 0) -> Tensor:
        """The micro-batches of all ranks, in the order of ranks: int64 [num_ranks * B, s + 1]."""
        return torch.cat(
            [self.of_rank(rank, iteration, micro_step) for rank in range(self.num_ranks)]
        )

    def of_rank(self, rank: int, iteration: int, micro_step: int = 0) -> Tensor:
        """The micro-batch of any rank: int64 [B, s + 1], windows drawn from the whole text."""
        generator = torch.Generator().manual_seed(_mix(self.seed, iteration, micro_step, rank))
        starts = torch.randint(
            len(self.text) - self.context, (self.batch, 1), generator=generator, device="cpu"
        )
        columns = torch.arange(self.context + 1, device="cpu")
        return _as_tensor(self.text)[starts + columns].long()


def _mix(*numbers: int) -> int:
    """One seed from several numbers, such that neighbouring numbers give unrelated seeds."""
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "little")


@cache
def _as_tensor(text: bytes) -> Tensor:
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)
