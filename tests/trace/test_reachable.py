"""Bytes that a program's Python code can reach, even if other code also holds the tensor."""

import gc

import pytest
import torch

from zerosim.trace.reachable import reachable_bytes


@pytest.fixture
def nothing_else():
    """What is there already is not counted."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_each_storage_that_a_name_reaches_counts_once(nothing_else):
    whole = torch.zeros(100)
    held = [whole, whole.view(10, 10), whole[:5]]
    assert reachable_bytes() == 400
    part = torch.zeros(50)[:1]
    assert part.numel() == 1
    assert reachable_bytes() == 400 + 200
    held.clear()
    del part
    assert reachable_bytes() == 400


def test_what_only_pytorch_holds_does_not_count(nothing_else):
    leaf = torch.zeros(100, requires_grad=True)
    squared = leaf * 1
    result = squared * squared
    assert reachable_bytes() == 3 * 400
    del squared
    assert reachable_bytes() == 2 * 400
    assert result.grad_fn is not None
