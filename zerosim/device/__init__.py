"""The device's memory where there is no device: host memory kept apart, with a limit.

What the engine and autograd allocate is on the device unless it says otherwise. Without a limit the
functions here do nothing. Imports torch, zerosim's L0, trace.labels and trace.holdings.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["on_host", "resized"]


@contextmanager
def on_host() -> Iterator[None]:
    """What is allocated inside is in the host's memory and does not count against the device's."""
    yield


def resized(tensor: torch.Tensor) -> None:
    """Say that the tensor's storage was just resized: its place is given back or taken anew."""
