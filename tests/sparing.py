"""Cases of which CI runs some: the others show again what those show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sparing(cases: Iterable[Any], every: int) -> list[Any]:
    """Parameters of a test: each `every`-th, from the first, and the rest marked slow."""
    return [
        case
        if number % every == 0
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for number, case in enumerate(cases)
    ]
