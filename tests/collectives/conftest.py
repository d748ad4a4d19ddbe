"""One launch for each number of ranks, shared by the tests that look at what it left."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.collectives import cases
from tests.ranks import run_ranks


@dataclass(frozen=True)
class Launch:
    num_ranks: int
    folder: Path
    answers: list[Any]
    cases: list[cases.Case]


@pytest.fixture(scope="session", params=[2, 3, 4, 5], ids="{} ranks".format)
def launch(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("collectives")
    answers = run_ranks(cases.run_all, request.param, str(folder))
    return Launch(request.param, folder, answers, cases.draw_cases(request.param))
