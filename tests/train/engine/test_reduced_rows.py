"""Where reduced gradients are kept."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from zerosim.train.engine.reduced_rows import DeviceRows


def test_a_row_that_has_begun_holds_nothing_by_chance():
    flat = SimpleNamespace(
        name="head",
        unit=SimpleNamespace(columns=3),
        new_gradient=lambda columns: torch.full((columns,), torch.nan),
    )
    rows = DeviceRows()
    rows.begin(flat)
    assert [row.tolist() for row in rows.rows(flat)] == [[0, 0, 0]]
