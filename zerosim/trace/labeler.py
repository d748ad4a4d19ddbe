"""All that the core knows of `zerosim.trace.autolabel`: what it may be asked."""

from __future__ import annotations

from typing import Protocol

import torch

from zerosim.schema.memory import Role
from zerosim.trace.looking import Content
from zerosim.trace.operators import OperatorCall
from zerosim.trace.sink import Labels


class Labeler(Protocol):
    """Who finds out what a program does that says nothing of itself."""

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """Add what can be found out about a collective to its labels."""
        ...

    def contents(self) -> list[Content]:
        """What a program holds that says nothing of itself."""
        ...

    def name_of(self, role: Role, storage: torch.Tensor) -> str:
        """What parameters a storage holds, or gradients of which; "" if that is not known."""
        ...

    def find_gradients(self, *, wholly: bool) -> None:
        """Say to `holdings` what gradients there are by now.

        Args:
            wholly: see, too, whether those that are known have other memory.
        """
        ...
