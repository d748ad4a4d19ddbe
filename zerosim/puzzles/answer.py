"""What a case says of a program's run on one rank. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program returned, and what is right.

    Attributes:
        found: what the program returned, by what it is called.
        expected: what is right, likewise.
        within: how far each may be from it, in the largest absolute difference; 0 for its dtype's
            rounding, or for equal bits where these are promised.
        sizes: numbers that the formulas of the promise name.
        contents: what a message may hold, by what it is called.
        problem: what else is wrong, a sentence; "" if nothing is.
    """

    found: Mapping[str, Any]
    expected: Mapping[str, torch.Tensor]
    within: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    contents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    problem: str = ""

    def difference(self, *, exact: bool) -> str:
        """The first result that is not right, in a sentence; "" if all are."""
        for name, right in self.expected.items():
            words = _difference(self.found.get(name), right, self.within.get(name, 0.0), exact)
            if words:
                return f"{name} {words}"
        return self.problem


def _difference(found: Any, right: torch.Tensor, within: float, exact: bool) -> str:
    if not isinstance(found, torch.Tensor):
        return f"is {type(found).__name__}: expected a tensor of {_shape(right)}"
    if found.shape != right.shape or found.dtype != right.dtype:
        return (
            f"is a tensor of {_shape(found)}, {found.dtype}: expected {_shape(right)}, "
            f"{right.dtype}"
        )
    found = found.detach()
    if within:
        far = (found.double() - right.double()).abs()
        wrong = ~(far <= within)
    elif exact or not right.is_floating_point():
        wrong = found != right
    else:
        wrong = ~torch.isclose(found, right, rtol=1e-5, atol=1e-6)
    if not bool(wrong.any()):
        return ""
    place = int(wrong.flatten().nonzero()[0, 0])
    here, there = found.flatten()[place].item(), right.flatten()[place].item()
    bits = " (another order of additions: not the same bits)"
    is_close = exact and torch.allclose(found.double(), right.double(), rtol=1e-5)
    number = int(wrong.sum())
    return (
        f"is wrong in {number} of {right.numel()} elements, first in element {place}: {here:g}, "
        f"expected {there:g}{f', within {within:g}' if within else ''}{bits if is_close else ''}"
    )


def _shape(tensor: torch.Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or "one number"
