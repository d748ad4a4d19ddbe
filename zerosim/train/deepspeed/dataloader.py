"""The dataloader that `initialize` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset

from zerosim.base.errors import ConfigError
from zerosim.train.collectives import RankGroup


def make_dataloader(
    data: Dataset[Any],
    group: RankGroup,
    batch: int,
    collate: Callable[..., Any] | None,
    *,
    drop_last: bool,
) -> DataLoader[Any]:
    """The data in micro-batches, shuffled and divided among the ranks as DeepSpeed does.

    Raises:
        ConfigError: the data have no length.
    """
    if isinstance(data, IterableDataset) or not hasattr(data, "__len__"):
        raise ConfigError("training_data has no length: pass a DataLoader of it to the program")
    sampler: DistributedSampler[Any] = DistributedSampler(
        data, num_replicas=group.size, rank=group.rank
    )
    return DataLoader(
        data,
        batch_size=batch,
        sampler=sampler,
        collate_fn=collate,
        drop_last=drop_last,
        pin_memory=torch.cuda.is_available(),
    )
