"""Vectors in pieces, for puzzles about collectives: small whole numbers, so that sums are exact."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import torch

from zerosim.schema.events import Phase
from zerosim.trace import labels

ELEMENTS = 64
_LARGEST = 2**18
"""Sums of some ranks' pieces are exact in float32, and all different."""


def pieces_of(rank: int, ranks: int, elements: int = ELEMENTS) -> list[torch.Tensor]:
    """The initial contents of a rank: N pieces."""
    drawn = torch.Generator().manual_seed(1000 + rank)
    whole = torch.randint(1, _LARGEST, (ranks, elements), generator=drawn)
    return list(whole.float())


def total(piece: int, ranks: int, elements: int = ELEMENTS) -> torch.Tensor:
    """A piece summed over all ranks."""
    return torch.stack([pieces_of(rank, ranks, elements)[piece] for rank in range(ranks)]).sum(0)


def partial_sums(ranks: int, elements: int = ELEMENTS) -> dict[str, torch.Tensor]:
    """Each piece summed over each set of ranks: the allowed contents of a reduce-scatter's
    message.
    """
    given = [pieces_of(rank, ranks, elements) for rank in range(ranks)]
    return {
        f"piece {piece} of ranks {', '.join(map(str, some))}": torch.stack(
            [given[rank][piece] for rank in some]
        ).sum(0)
        for piece in range(ranks)
        for some in some_of(ranks)
    }


def begin(iteration: int, phase: Phase = Phase.BACKWARD) -> None:
    """The measured part begins: it belongs to an iteration."""
    labels.enter(iteration, phase)


def owned(rank: int, ranks: int) -> torch.Tensor:
    """The piece that a rank owns."""
    return pieces_of(rank, ranks)[rank]


def numbered(pieces: Any, name: str = "piece") -> dict[str, Any]:
    """A list of pieces by name; empty if it is not a list."""
    given = pieces if isinstance(pieces, list | tuple) else []
    return {f"{name} {number}": piece for number, piece in enumerate(given)}


def vector_of(rank: int, elements: int) -> torch.Tensor:
    """A whole vector, of any length."""
    drawn = torch.Generator().manual_seed(2000 + rank)
    return torch.randint(1, _LARGEST, (elements,), generator=drawn).float()


def sums_of(
    vectors: Sequence[torch.Tensor], chosen: Sequence[int], ranks: int
) -> dict[str, torch.Tensor]:
    """The pieces of the sum over some ranks' vectors, by name."""
    whole = torch.stack([vectors[rank] for rank in chosen]).sum(0)
    members = ", ".join(map(str, chosen))
    pieces = torch.tensor_split(whole, ranks)
    return {f"piece {number} of ranks {members}": piece for number, piece in enumerate(pieces)}


def some_of(ranks: int) -> list[tuple[int, ...]]:
    """Each nonempty set of ranks."""
    return [some for count in range(1, ranks + 1) for some in combinations(range(ranks), count)]


def end(iteration: int) -> None:
    """The measured part ends."""
    labels.enter(iteration, Phase.OUTSIDE)
