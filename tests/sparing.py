"""Cases of which CI runs some: the others show again what those show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest


def sparing(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: each `every`-th, from the first, and the rest marked slow."""
    return [
        case
        if number % every == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]


V = TypeVar("V")


def spared(cases: Mapping[Any, V], *kept: Any) -> dict[Any, V]:
    """What one start of ranks goes through: in CI only these, else everything."""
    return {name: case for name, case in cases.items() if name in kept or not os.environ.get("CI")}
