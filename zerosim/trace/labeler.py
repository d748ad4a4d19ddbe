"""All that the core knows of `zerosim.trace.autolabel`: what it may be asked."""

from __future__ import annotations

from typing import Protocol

from zerosim.trace.operators import OperatorCall
from zerosim.trace.sink import Labels


class Labeler(Protocol):
    """Who finds out what a program does that says nothing of itself."""

    def explain(self, call: OperatorCall, current: Labels) -> Labels:
        """Add what can be found out about a collective to its labels."""
        ...

    def find_gradients(self) -> None:
        """Say to `holdings` what gradients there are by now."""
        ...
