"""The interface of `zerosim.trace.autolabel` for the core: the queries it may make."""

from __future__ import annotations

from typing import Protocol

import torch

from zerosim.schema.memory import Role
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall
from zerosim.trace.sink import Labels


class Labeler(Protocol):
    """Infers labels for a program without labels of its own."""

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """Add inferred labels of a collective."""
        ...

    def contents(self) -> list[Content]:
        """The tensors of a program without labels."""
        ...

    def name_of(self, role: Role, storage: torch.Tensor) -> str:
        """The parameters in a storage, or those of its gradients; "" if unknown."""
        ...

    def find_gradients(self, *, wholly: bool) -> None:
        """Register the current gradients with `holdings`.

        Args:
            wholly: also check whether known gradients have moved to other memory.
        """
        ...
