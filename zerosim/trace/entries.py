"""PyTorch functions, replaced while a fault is to be injected there, then restored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.autograd.graph


@contextmanager
def replaced_backward(leaves_out: Callable[[], bool]) -> Iterator[None]:
    """Skip the backward if so configured."""
    run = torch.autograd.graph._engine_run_backward

    def run_backward(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("accumulate_grad") and leaves_out():
            return ()
        return run(*args, **kwargs)

    homes: tuple[Any, ...] = (torch.autograd, torch.autograd.graph)
    for home in homes:
        home._engine_run_backward = run_backward
    try:
        yield
    finally:
        for home in homes:
            home._engine_run_backward = run


@contextmanager
def replaced_loader(reads: Callable[[], None], size_of: Callable[[int], int]) -> Iterator[None]:
    """Let data end early, raise, or come in smaller batches.

    Args:
        reads: called before each batch; the loader raises its exceptions.
        size_of: maps the size of a batch to the altered size.
    """
    from torch.utils.data import DataLoader, dataloader

    base: Any = dataloader._BaseDataLoaderIter
    loader: Any = DataLoader
    follow, begin = base.__next__, loader.__iter__

    def following(self: Any) -> Any:
        reads()
        return follow(self)

    def beginning(self: Any) -> Any:
        sampler: Any = getattr(self, "batch_sampler", None)
        size = getattr(sampler, "batch_size", None)
        if size and (other := size_of(size)) != size:
            sampler.batch_size = other
        return begin(self)

    base.__next__, loader.__iter__ = following, beginning
    try:
        yield
    finally:
        base.__next__, loader.__iter__ = follow, begin


@contextmanager
def replaced_seed(seed_for: Callable[[int], int]) -> Iterator[None]:
    """Replace the given seed with a different one."""
    seed = torch.manual_seed

    def manual_seed(number: Any) -> Any:
        return seed(seed_for(int(number)))

    homes: tuple[Any, ...] = (torch, torch.random)
    for home in homes:
        home.manual_seed = manual_seed
    try:
        yield
    finally:
        for home in homes:
            home.manual_seed = seed
