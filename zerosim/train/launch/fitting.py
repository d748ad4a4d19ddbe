"""The largest model that trains on a device of a given size, found by search.

Memory grows about linearly with the layers, so the peaks of two models that fit predict the next
size to try; that guess is then confirmed from both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt to train a model.

    Attributes:
        parameters: number of parameters.
        peak_bytes: the largest peak of any rank's device; None if an allocation failed.
        problem: the allocation that failed; "" if none did.
    """

    layers: int
    parameters: int
    peak_bytes: int | None
    problem: str = ""

    @property
    def fits(self) -> bool:
        """Whether it trained."""
        return self.peak_bytes is not None


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a search.

    Attributes:
        tries: in order.
        largest: the largest model that trained; None if not even one layer did.
        is_bounded: False if the search ended before it found a model that does not fit.
    """

    tries: tuple[Try, ...]
    largest: Try | None
    is_bounded: bool


def find_largest(
    attempt: Callable[[int], Try], limit_bytes: int, most_layers: int, first: int = 1
) -> Fit:
    """Try numbers of layers until one fits and the next does not.

    Args:
        attempt: trains a model with a given number of layers.
        limit_bytes: the memory of the device.
        most_layers: the largest number of layers to try.
        first: the number of layers to try first: the user's estimate.
    """
    tries: list[Try] = []
    fitting: list[Try] = []
    too_large = most_layers + 1
    while _layers(fitting) + 1 < too_large:
        guess = _guess(fitting, too_large, limit_bytes) if tries else max(1, first)
        if guess >= too_large:
            # halfway between a size that fits and one that does not; or the maximum
            has_failed = len(tries) > len(fitting)
            guess = (_layers(fitting) + too_large) // 2 if has_failed else most_layers
        one = attempt(guess)
        tries.append(one)
        if one.fits:
            fitting.append(one)
        else:
            too_large = one.layers
    largest = fitting[-1] if fitting else None
    return Fit(tuple(tries), largest, is_bounded=too_large <= most_layers)


def _layers(fitting: list[Try]) -> int:
    return fitting[-1].layers if fitting else 0


def _guess(fitting: list[Try], too_large: int, limit_bytes: int) -> int:
    """The number of layers that fit if memory keeps growing at this rate: at least one more.

    Args:
        fitting: ascending.
    """
    best = _layers(fitting)
    if len(fitting) < 2:
        return best + 1
    before, last = fitting[-2:]
    assert before.peak_bytes is not None, "it did not fit"
    assert last.peak_bytes is not None, "it did not fit"
    grown_bytes = (last.peak_bytes - before.peak_bytes) / (last.layers - before.layers)
    if grown_bytes <= 0:
        return too_large
    return best + max(1, int((limit_bytes - last.peak_bytes) / grown_bytes))
