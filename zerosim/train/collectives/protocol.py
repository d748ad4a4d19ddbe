"""The interface of collectives for the engine, for every implementation.

A buffer that is reduced or gathered is a matrix of shape (N, columns): row r belongs to rank r. Its
rows must be contiguous, the matrix need not be: a bucket may be some columns of a unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch

from zerosim.base.errors import ConfigError
from zerosim.schema.events import Op
from zerosim.train.collectives.group import RankGroup


@dataclass(frozen=True, slots=True)
class Carried:
    """The elements behind the bytes of a buffer, if PyTorch's dtype differs.

    Attributes:
        dtype: its name in events: "int8", "int4".
        elements: number of elements, without the scales.
    """

    dtype: str
    elements: int

    @classmethod
    def of(cls, buffer: torch.Tensor) -> Self:
        """The elements of a buffer according to PyTorch."""
        return cls(str(buffer.dtype).removeprefix("torch."), buffer.numel())


class Handle(Protocol):
    """A collective that may be in progress."""

    def wait(self) -> None:
        """Return when this thread may use its result.

        Raises:
            CollectiveError: it did not complete: a peer has ended or does not respond.
        """
        ...


class Collectives(Protocol):
    """Collective operations of one group, all in place.

    If the executor works in the background, each returns a handle at once; the buffers must not be
    touched until the handle has been waited for.
    """

    @property
    def group(self) -> RankGroup:
        """The ranks that take part."""
        ...

    def all_reduce(self, buffer: torch.Tensor) -> Handle:
        """Sum over all ranks; every rank gets the sum.

        Args:
            buffer: (N, columns), or a vector of any length.
        """
        ...

    def reduce_scatter(self, buffer: torch.Tensor) -> Handle:
        """Sum over all ranks; rank r gets row r. The other rows contain partial sums afterwards.

        Args:
            buffer: (N, columns).
        """
        ...

    def all_gather(self, buffer: torch.Tensor) -> Handle:
        """Gather every rank's own row on all ranks.

        Args:
            buffer: (N, columns); row r is filled on rank r.
        """
        ...

    def broadcast(self, buffer: torch.Tensor, root: int) -> Handle:
        """Broadcast the buffer of the rank at position `root` to all ranks.

        Args:
            buffer: contiguous, any shape.
        """
        ...

    def reduce(self, buffer: torch.Tensor, root: int) -> Handle:
        """Sum over all ranks on the rank at position `root`; others have partial sums afterwards.

        Args:
            buffer: contiguous, any shape.
        """
        ...

    def send(self, buffer: torch.Tensor, to: int) -> Handle:
        """Send a contiguous buffer to the rank at position `to`."""
        ...

    def receive(self, buffer: torch.Tensor, source: int) -> Handle:
        """Receive into a contiguous buffer from the rank at position `source`."""
        ...


def require_matrix(op: Op, buffer: torch.Tensor, group: RankGroup) -> None:
    """Check that a buffer has a row for each rank.

    Raises:
        ConfigError: it does not.
    """
    if buffer.dim() != 2 or buffer.shape[0] != group.size:
        shape = tuple(buffer.shape)
        raise ConfigError(
            f"{op} got a buffer of shape {shape}: expected ({group.size}, columns), "
            "a row for each rank"
        )
