"""Runs of every system of the family, recorded once for all tests that ask; never written."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from tests.ranks import run_ranks


@cache
def _home() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="zerosim-family-")  # removed as the process ends


_recorded: dict[int, Path] = {}


def recorded_family(
    num_ranks: int, train: Callable[[str, dict[str, Any]], None], cases: dict[str, Any]
) -> Path:
    """The folder with one trace a case, by its name.

    Args:
        train: what each rank runs, with the folder and the cases.
    """
    if num_ranks not in _recorded:
        folder = Path(tempfile.mkdtemp(dir=_home().name))
        run_ranks(train, num_ranks, str(folder), cases)
        _recorded[num_ranks] = folder
    return _recorded[num_ranks]
