"""A memory limit for the ranks' device: a GPU, or the host in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from zerosim.base.errors import OutOfMemory, first_line
from zerosim.base.quantities import format_bytes
from zerosim.train.device.limited_memory import DeviceMemory


def device_memory(limit_bytes: int | None, device: torch.device) -> AbstractContextManager[object]:
    """Limit this process's allocations on the device while the block runs.

    Args:
        limit_bytes: None for no limit; on a card the caching allocator's own is set.
    """
    if limit_bytes is None:
        return nullcontext()
    if device.type == "cuda":
        return _limited_card(limit_bytes, device)
    return DeviceMemory(limit_bytes)


@contextmanager
def _limited_card(limit_bytes: int, device: torch.device) -> Iterator[None]:
    """Let PyTorch's caching allocator reserve no more than this of the card.

    Raises:
        OutOfMemory: an allocation exceeded the limit.
    """
    total_bytes = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total_bytes), device)
    try:
        yield
    except torch.OutOfMemoryError as error:
        allocated_bytes = torch.cuda.memory_allocated(device)
        reserved_bytes = torch.cuda.memory_reserved(device)
        raise OutOfMemory(
            f"out of device memory: {format_bytes(allocated_bytes)} is in use and "
            f"{format_bytes(reserved_bytes)} reserved of {format_bytes(limit_bytes)} "
            f"({first_line(error)}); try a higher --stage, --offload-optimizer cpu, "
            "--checkpoint-activations or a larger --device-bytes"
        ) from error
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, device)
