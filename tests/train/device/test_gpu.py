"""A limit on a real card: what PyTorch's caching allocator refuses is our error, in one line."""

from __future__ import annotations

import pytest
import torch

from zerosim.base.errors import OutOfMemory
from zerosim.train.device import device_memory

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_a_limited_card_refuses_what_is_too_large() -> None:
    card = torch.device("cuda", torch.cuda.current_device())

    def allocate() -> None:
        with device_memory(64 << 20, card):
            fits = torch.empty(16 << 20, dtype=torch.uint8, device=card)
            assert fits.is_cuda
            torch.empty(128 << 20, dtype=torch.uint8, device=card)

    with pytest.raises(OutOfMemory, match=r"of 67\.1 MB .*try a higher --stage"):
        allocate()
    # the limit ends with the block
    assert torch.empty(128 << 20, dtype=torch.uint8, device=card).is_cuda
