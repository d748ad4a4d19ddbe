"""What the tests of the models share."""

import pytest
import torch


@pytest.fixture
def one_thread():
    """Train with one thread: on a busy machine several wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
