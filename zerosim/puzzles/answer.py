"""A case's report on a program's run on one rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from zerosim.puzzles.wording import content_name, result_name, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between a program's result and the correct one.

    Attributes:
        sentence: the whole difference in a sentence.
        found, expected: the first difference, in a few words; "" if it is not a value.
    """

    sentence: str
    found: str = ""
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A program's result, and the correct one.

    Attributes:
        found: the program's results, by name.
        expected: the correct ones, by name.
        within: the tolerance of each, as the largest absolute difference; 0 for its dtype's
            rounding, or for bitwise equality where that is promised.
        sizes: numbers that the promise's formulas use.
        contents: the allowed contents of a message, by name.
        problem: another problem, in a sentence; "" if there is none.
    """

    found: Mapping[str, Any]
    expected: Mapping[str, torch.Tensor]
    within: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    contents: Mapping[str, torch.Tensor] = field(default_factory=dict)
    problem: str = ""

    def difference(self, *, exact: bool) -> Difference | None:
        """The first wrong result; None if all are right."""
        for name, right in self.expected.items():
            found = self.found.get(name)
            given = _difference(
                result_name(name), found, right, self.within.get(name, 0.0), exact=exact
            )
            if given is not None:
                return self._named(name, found, right) or given
        return Difference(sentence=self.problem) if self.problem else None

    def _named(self, name: str, found: Any, right: torch.Tensor) -> Difference | None:
        """The name of the wrong value, if it is another allowed content of a message."""
        given, owed = self._content(found), self._content(right)
        if not given or not owed:
            return None
        sentence = words("values.other", name=result_name(name), found=given, expected=owed)
        return Difference(sentence=sentence, found=given, expected=owed)

    def _content(self, value: Any) -> str:
        """The name of a value; "" if it has none."""
        if not isinstance(value, torch.Tensor):
            return ""
        alike = (name for name, one in self.contents.items() if torch.equal(one, value))
        return content_name(next(alike, ""))


def _difference(
    name: str, found: Any, right: torch.Tensor, within: float, *, exact: bool
) -> Difference | None:
    if not isinstance(found, torch.Tensor):
        is_a, expected = type(found).__name__, words("values.tensor", shape=_shape(right))
        sentence = words("values.type", name=name, found=is_a, expected=expected)
        return Difference(sentence=sentence, found=is_a, expected=expected)
    if found.shape != right.shape or found.dtype != right.dtype:
        is_a, expected = _kind(found), _kind(right)
        sentence = words("values.type", name=name, found=is_a, expected=expected)
        return Difference(sentence=sentence, found=is_a, expected=expected)
    found = found.detach()
    if within:
        far = (found.double() - right.double()).abs()
        wrong = ~(far <= within)
    elif exact or not right.is_floating_point():
        wrong = found != right
    else:
        wrong = ~torch.isclose(found, right, rtol=1e-5, atol=1e-6)
    if not bool(wrong.any()):
        return None
    place = int(wrong.flatten().nonzero()[0, 0])
    here, there = (f"{one.flatten()[place].item():g}" for one in (found, right))
    if within:
        there = words("values.within", expected=there, within=f"{within:g}")
    sentence = words(
        "values.wrong", name=name, count=int(wrong.sum()), total=right.numel(), place=place,
        found=here, expected=there,
    )  # fmt: skip
    if exact and torch.allclose(found.double(), right.double(), rtol=1e-5):
        sentence = words("values.bits", sentence=sentence)
    return Difference(
        sentence=sentence, found=words("values.element", found=here, place=place), expected=there
    )


def _kind(tensor: torch.Tensor) -> str:
    return words("values.tensor_of", shape=_shape(tensor), dtype=tensor.dtype)


def _shape(tensor: torch.Tensor) -> str:
    return " x ".join(map(str, tensor.shape)) or words("values.one_number")
