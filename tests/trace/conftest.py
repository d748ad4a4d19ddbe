"""A process group of this process alone, and a clock that tests move."""

import pytest
import torch.distributed as dist

from zerosim.trace.holdings import holdings


class HandClock:
    """A clock that advances only when a test moves it."""

    def __init__(self, now_ns=1000):
        self.now = now_ns

    def now_ns(self):
        return self.now

    def wall_ns(self):
        return 1_700_000_000_000_000_000


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def alone():
    """Gloo with one rank: its calls take the same way through the dispatcher."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def nothing_held():
    """What a process holds is one thing for all tests that share it."""
    for held in holdings:
        holdings.drop(held)
