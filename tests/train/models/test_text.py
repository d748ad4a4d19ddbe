import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from zerosim.train.models import Batches, train_text, unigram_loss, validation_text, whole_text


def batches(rank=0, num_ranks=4, seed=0, context=20, **text):
    return Batches(seed=seed, rank=rank, num_ranks=num_ranks, batch=3, context=context, **text)


def test_the_text_is_split_without_overlap():
    assert train_text() + validation_text() == whole_text()
    assert len(train_text()) / len(whole_text()) == pytest.approx(0.9, abs=1e-4)
    assert len(whole_text()) > 300_000
    assert validation_text() not in train_text()


@pytest.mark.parametrize(
    ("text", "nats"), [(b"aaaa", 0.0), (b"abab", math.log(2)), (bytes(range(256)), math.log(256))]
)
def test_unigram_loss_by_hand(text, nats):
    assert unigram_loss(text) == pytest.approx(nats)


def test_unigram_loss_of_the_text():
    assert unigram_loss(whole_text()) == pytest.approx(3.26, abs=0.05)


def test_a_batch_is_windows_of_the_text():
    rows = batches().at(5, 1)
    assert rows.shape == (3, 21)
    assert rows.dtype == torch.int64
    for row in rows.tolist():
        assert bytes(row) in train_text()


def test_the_last_window_can_be_drawn():
    drawn = {bytes(batches(text=b"abcd", context=2).at(i)[0].tolist()) for i in range(40)}
    assert drawn == {b"abc", b"bcd"}


@given(
    seed=st.integers(0, 2**40),
    iteration=st.integers(0, 10**6),
    micro_step=st.integers(0, 64),
    num_ranks=st.integers(1, 8),
)
def test_one_process_rebuilds_what_all_ranks_read(seed, iteration, micro_step, num_ranks):
    each = [batches(rank, num_ranks, seed).at(iteration, micro_step) for rank in range(num_ranks)]
    assert torch.equal(torch.cat(each), batches(0, num_ranks, seed).union(iteration, micro_step))


def test_a_batch_does_not_depend_on_the_number_of_ranks():
    assert torch.equal(batches(1, 2).at(3), batches(1, 8).at(3))


def test_all_batches_differ():
    drawn = {
        tuple(batches(rank, seed=seed).at(iteration, micro_step).flatten().tolist())
        for seed in range(2)
        for rank in range(4)
        for iteration in range(4)
        for micro_step in range(4)
    }
    assert len(drawn) == 2 * 4 * 4 * 4


def test_a_batch_leaves_the_generator_and_the_default_device_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    with torch.device("meta"):
        assert batches().at(0).device.type == "cpu"
    assert torch.equal(torch.rand(3), expected)


def test_a_rank_outside_of_the_group_is_our_mistake():
    with pytest.raises(AssertionError, match="rank 4 of 4"):
        batches(rank=4)
