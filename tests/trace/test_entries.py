"""Faults at PyTorch's own entries, in this process: they happen, and the entries are put back."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from zerosim.schema.events import Phase
from zerosim.schema.faults import read_faults
from zerosim.trace import labels
from zerosim.trace.faulty import Faults


def batches():
    return [len(one) for (one,) in DataLoader(TensorDataset(torch.arange(8.0)), batch_size=4)]


def drawn():
    torch.manual_seed(5)
    return float(torch.rand(1))


def gradient():
    weight = torch.ones(1, requires_grad=True)
    (2 * weight).sum().backward()
    return weight.grad


@pytest.fixture
def faulty():
    """Begins the faults of a rank in its first forward; they end with the test, if not before."""
    begun = []

    def begin(text):
        begun.append(Faults(read_faults([text]), rank=0))
        begun[0].install()
        labels.enter(0, Phase.FORWARD)
        return begun[0]

    yield begin
    begun[0].remove()
    labels.enter(-1, Phase.SETUP)
    assert (batches(), float(gradient())) == ([4, 4], 2.0)


def test_data_end_early(faulty):
    faulty("short-data,rank=0,iteration=0")
    assert batches() == []


def test_a_loader_raises(faulty):
    faulty("loader-error,rank=0,iteration=0")
    with pytest.raises(RuntimeError, match="the data of iteration 0 cannot be read"):
        batches()


def test_batches_are_half_as_large_from_one_loader_on(faulty, capsys):
    faulty("batch,rank=0")
    assert batches() == [2, 2, 2, 2]
    assert "batches of 2" in capsys.readouterr().err


def test_another_seed_is_set(faulty):
    sound = drawn()
    faulty("seed,rank=0")
    assert drawn() != sound


def test_a_backward_is_left_out_once(faulty):
    faulty("no-backward,rank=0,iteration=0")
    assert gradient() is None
    assert float(gradient()) == 2.0
