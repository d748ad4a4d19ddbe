"""A function on ranks: what they return, and how it is told that one did not."""

import os
import signal
import time

import pytest
import torch
import torch.distributed as dist

from tests.deadlines import RANKS_S
from tests.ranks import run_ranks
from zerosim.train.launch import calls

pytestmark = pytest.mark.ranks


def adds(number):
    total = torch.tensor([number * (dist.get_rank() + 1)])
    dist.all_reduce(total)
    return total, os.environ["MASTER_PORT"]


def leaves_its_groups():
    dist.barrier()  # a connection that another still opens is not closed
    dist.destroy_process_group()
    return os.getpid()


def raises():
    if dist.get_rank() == 1:
        raise ValueError("of my own")


def dies():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(2 * RANKS_S)


def sleeps():
    time.sleep(2 * RANKS_S)


def makes_what_cannot_be_sent():
    return lambda: None


def test_what_each_rank_returns():
    """They meet without a port, and without their groups."""
    assert run_ranks(adds, 3, 2) == [(torch.tensor([12]), "0")] * 3
    assert len(set(run_ranks(leaves_its_groups, 2))) == 2


@pytest.mark.parametrize(
    ("function", "deadline_s", "words"),
    [
        (
            raises,
            RANKS_S,
            r"rank 1 failed: Traceback[^/]*\n  File \"[^\"]*test_calls.py\"[\s\S]*my own",
        ),
        (dies, RANKS_S, r"rank 0 did not end [\s\S]*rank 1 died \(-9\)"),
        (sleeps, 0.5, r"rank 0 did not end within 0.5 s[\s\S]*rank 1 did not end"),
        (makes_what_cannot_be_sent, RANKS_S, "the function's return value cannot be sent back"),
    ],
)
def test_a_rank_that_returns_nothing_is_told_of(function, deadline_s, words, monkeypatch):
    monkeypatch.setattr(calls, "_GRACE_S", 0.5)  # the other rank has nothing more to say
    began = time.monotonic()
    with pytest.raises(AssertionError, match=words):
        run_ranks(function, 2, deadline_s=deadline_s)
    assert time.monotonic() - began < RANKS_S, "ranks that sleep are not waited for"
