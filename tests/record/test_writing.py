"""Writing a trace: it is read back as it was."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from zerosim.base.errors import TraceError
from zerosim.record import load, write

TRACES = Path(__file__).parents[2] / "lessons" / "traces"
KEPT = ("folder", "num_rows")  # where it lies, and how many rows say it


@pytest.mark.parametrize("name", ["nodes/stage-3", "infinity/stage-3", "parallel/ddp"])
def test_a_trace_is_read_back_as_it_was(tmp_path, name):
    trace = load(TRACES / name)
    write(trace, tmp_path / "again")
    again = load(tmp_path / "again", strict=True)
    assert again.manifest == trace.manifest
    for before, after in zip(trace.ranks, again.ranks, strict=True):
        for field in fields(before):
            if field.name not in KEPT:
                assert getattr(after, field.name) == getattr(before, field.name), field.name
    with pytest.raises(TraceError, match="already contains a trace"):
        write(trace, tmp_path / "again")
