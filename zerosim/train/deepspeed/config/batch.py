"""Batch sizes, as in DeepSpeed: train_batch_size = micro-batch x accumulation x ranks."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config.check import Given

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
ACCUMULATE = "gradient_accumulation_steps"


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Samples of an optimizer step and of a micro-batch of one rank, and number of micro-steps."""

    train: int
    micro: int
    accumulate: int


def batch_sizes(given: Given, num_ranks: int) -> BatchSizes:
    """Compute the missing sizes.

    Raises:
        ConfigError: too few sizes are given, or they do not divide or contradict each other.
    """
    train, micro, accumulate = given[TRAIN], given[MICRO], given[ACCUMULATE]
    if train is None and micro is None:
        raise ConfigError(f"neither {TRAIN} nor {MICRO} is given: give one of them")
    if train is None:
        accumulate = accumulate or 1
        return BatchSizes(micro * accumulate * num_ranks, micro, accumulate)
    sizes = (
        BatchSizes(train, micro, accumulate or max(1, train // micro // num_ranks))
        if micro is not None
        else BatchSizes(train, max(1, train // num_ranks // (accumulate or 1)), accumulate or 1)
    )
    product = sizes.micro * sizes.accumulate * num_ranks
    if product != train:
        raise ConfigError(
            f"{TRAIN} is {train}, {_said(MICRO, micro)}, {_said(ACCUMULATE, accumulate)}, and "
            f"there are {num_ranks} ranks: expected {TRAIN} = {MICRO} x {ACCUMULATE} x ranks"
        )
    return sizes


def _said(name: str, value: int | None) -> str:
    return f"{name} is not given" if value is None else f"{name} {value}"
