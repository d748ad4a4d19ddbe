"""What is read of a tensor leaves it as it was: a program may resize its memory afterwards."""

from __future__ import annotations

import pytest
import torch

from zerosim.schema.memory import Role
from zerosim.trace import looking
from zerosim.trace.holdings import hold


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_looked_at_can_be_freed(dtype):
    tensor = torch.arange(8, dtype=dtype)
    hold(tensor, Role.GATHERED, "looked at")
    (row,) = looking.describe(Role.GATHERED, "looked at")
    assert (row["elements"], row["min"], row["max"]) == (8, 0, 7)
    assert len(looking.values(Role.GATHERED, "looked at")) == 8 * 4
    tensor.untyped_storage().resize_(0)
    assert tensor.untyped_storage().nbytes() == 0
