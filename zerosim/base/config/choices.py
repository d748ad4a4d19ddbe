"""Closed sets of names for options."""

from __future__ import annotations

from enum import StrEnum
from typing import Self, TypeVar

from zerosim.base.errors import ConfigError
from zerosim.base.tiers import Tier

STAGES = (0, 1, 2, 3)
STAGE_NAMES = {0: "data parallel", 1: "ZeRO-1", 2: "ZeRO-2", 3: "ZeRO-3"}

E = TypeVar("E", bound=StrEnum)


class DType(StrEnum):
    """Compute dtype: parameters, gradients, activations."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"

    @property
    def element_bytes(self) -> int:
        """Bytes of one element: 4 for fp32, else 2."""
        return 4 if self is DType.FP32 else 2


class CollectivesKind(StrEnum):
    """The implementation of the engine's collectives."""

    RING = "ring"
    NATIVE = "native"


class ModelName(StrEnum):
    """The built-in models."""

    GPT_TINY = "gpt-tiny"
    GPT_SMALL = "gpt-small"
    MLP = "mlp"
    GPT_2 = "gpt-2"
    GPT_3 = "gpt-3"
    ZERO_7_5B = "zero-7.5b"
    ZERO_128B = "zero-128b"
    ZERO_1T = "zero-1t"
    LLAMA_3_8B = "llama-3-8b"
    LLAMA_3_70B = "llama-3-70b"
    LLAMA_3_405B = "llama-3-405b"

    @property
    def is_large(self) -> bool:
        """True if no single machine can train it, so that it is for dry runs."""
        return self not in _TRAINED_HERE


_TRAINED_HERE = (ModelName.GPT_TINY, ModelName.GPT_SMALL, ModelName.MLP)


class AlikeRanks(StrEnum):
    """The ranks of an implementation that do identical work, for any number of ranks."""

    NONE = "none"
    ALL = "all"
    ROWS = "rows"
    """Ranks with equally many rows of each parameter, which is sharded along dim 0."""


class Implementation(StrEnum):
    """Other implementations that can train a built-in model, besides zerosim's engine.

    Attributes:
        shown: its name in tables.
        run_by: the function in `zerosim.systems` that creates its step.
        alike: the ranks that do identical work.
    """

    shown: str
    run_by: str
    alike: AlikeRanks

    def __new__(
        cls, value: str, shown: str = "", run_by: str = "", alike: AlikeRanks = AlikeRanks.NONE
    ) -> Self:
        """A member with its declared properties."""
        one = str.__new__(cls, value)
        one._value_ = value
        one.shown, one.run_by, one.alike = shown, run_by, alike
        return one

    DDP = "ddp", "DDP", "ddp.run.ddp", AlikeRanks.ALL
    DDP_ZERO = "ddp-zero", "DDP + ZeroRedundancyOptimizer", "zero_redundancy_optimizer.run.ddp_zero"
    FSDP2 = "fsdp2", "FSDP2", "fsdp2.run.fsdp2", AlikeRanks.ROWS
    FSDP2_KEPT = "fsdp2-kept", "FSDP2, kept after forward", "fsdp2.run.fsdp2_kept", AlikeRanks.ROWS
    FSDP2_BF16 = "fsdp2-bf16", "FSDP2, bf16", "fsdp2.run.fsdp2_bf16", AlikeRanks.ROWS
    FSDP1 = "fsdp1", "FSDP1", "fsdp1.run.fsdp1", AlikeRanks.ALL
    HSDP = "hsdp", "FSDP2, hybrid (HSDP)", "fsdp2.run.hsdp"
    TENSOR_PARALLEL = (
        *("tensor-parallel", "tensor parallel", "tensor_parallel.run.tensor_parallel"),
        AlikeRanks.ALL,
    )
    GPIPE = "gpipe", "pipeline, GPipe", "pipeline_parallel.run.gpipe"
    ONE_F_ONE_B = "1f1b", "pipeline, 1F1B", "pipeline_parallel.run.one_f_one_b"
    DEEPSPEED_0 = "deepspeed-0", "DeepSpeed stage 0", "deepspeed.run.stage_0"
    DEEPSPEED_1 = "deepspeed-1", "DeepSpeed stage 1", "deepspeed.run.stage_1"
    DEEPSPEED_2 = "deepspeed-2", "DeepSpeed stage 2", "deepspeed.run.stage_2"
    DEEPSPEED_3 = "deepspeed-3", "DeepSpeed stage 3", "deepspeed.run.stage_3"


class DeviceKind(StrEnum):
    """The device on which the ranks compute."""

    CPU = "cpu"
    CUDA = "cuda"


class Offload(StrEnum):
    """The place of states that would otherwise be on the device."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"

    @property
    def tier(self) -> Tier:
        """The corresponding tier."""
        return _TIERS[self]


class Owners(StrEnum):
    """The model states of a unit that one rank keeps whole in stage 3, instead of a shard on
    each.
    """

    NONE = "none"
    PARAMETERS = "parameters"
    """Its parameters, off the device; gradients and optimizer states are partitioned."""
    STATES = "states"
    """All its model states, on the device: ZeRO-3 as in the paper."""

    @classmethod
    def _missing_(cls, value: object) -> Owners | None:
        """Older traces only record whether parameters have owners, as a bool."""
        if not isinstance(value, bool):
            return None
        return cls.PARAMETERS if value else cls.NONE


_TIERS = {Offload.NONE: Tier.DEVICE, Offload.CPU: Tier.HOST, Offload.NVME: Tier.DISK}


def choice(kind: type[E], value: str, what: str) -> E:
    """Return the member of `kind` that `value` names.

    Args:
        kind: a closed set of names.
        value: what the user gave.
        what: the noun in the message, such as "model".

    Raises:
        ConfigError: no member has that name; the message lists the names.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"unknown {what} {value!r}: expected one of {known}") from None
