"""What can be asked of the engine and of a run, checked in one place.

Imports nothing but the standard library.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self, TypeVar, cast

from zerosim.errors import ConfigError


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
    """Who carries the engine's collectives out."""

    RING = "ring"
    NATIVE = "native"


class ModelName(StrEnum):
    """The built-in models."""

    GPT_TINY = "gpt-tiny"
    GPT_SMALL = "gpt-small"
    MLP = "mlp"


class Implementation(StrEnum):
    """Who else trains a built-in model, beside zerosim's engine."""

    DDP = "ddp"
    DDP_ZERO = "ddp-zero"
    FSDP2 = "fsdp2"
    FSDP2_KEPT = "fsdp2-kept"
    FSDP2_BF16 = "fsdp2-bf16"
    FSDP1 = "fsdp1"
    HSDP = "hsdp"
    TENSOR_PARALLEL = "tensor-parallel"
    GPIPE = "gpipe"
    ONE_F_ONE_B = "1f1b"
    DEEPSPEED_0 = "deepspeed-0"
    DEEPSPEED_1 = "deepspeed-1"
    DEEPSPEED_2 = "deepspeed-2"
    DEEPSPEED_3 = "deepspeed-3"


class DeviceKind(StrEnum):
    """Where the ranks compute."""

    CPU = "cpu"
    CUDA = "cuda"


STAGES = (0, 1, 2, 3)
_SEEDS = 2**32
_LONGEST_TIMEOUT_S = 86_400
"""A day: clocks that wait longer do not exist everywhere."""
STAGE_NAMES = {0: "data parallel", 1: "ZeRO-1", 2: "ZeRO-2", 3: "ZeRO-3"}


E = TypeVar("E", bound=StrEnum)


def choice(kind: type[E], value: str, what: str) -> E:
    """Return the member of `kind` that `value` names.

    Args:
        kind: a closed set of names.
        value: what the user gave.
        what: the noun for the message, such as "model".

    Raises:
        ConfigError: no member has that name; the message lists them.
    """
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise ConfigError(f"unknown {what} {value!r}: expected one of {known}") from None


def _require_whole(config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        _require(whole, name.replace("_", "-"), repr(value), "a whole number")


def _require(holds: bool, what: str, value: object, expected: str) -> None:
    if not holds:
        raise ConfigError(f"{what} is {value}: expected {expected}")


class _Plain:
    """What goes through JSON and comes back."""

    __slots__ = ()

    def to_plain(self) -> dict[str, object]:
        """The configuration as JSON values, for a manifest."""
        values: dict[str, object] = asdict(cast("Any", self))
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_plain`.

        Raises:
            ConfigError: an unknown key, or a value that the class refuses.
        """
        known = [field.name for field in fields(cast("Any", cls))]
        for name in values:
            if name not in known:
                raise ConfigError(f"unknown key {name!r}: expected one of {', '.join(known)}")
        try:
            return cls(**values)
        except TypeError as error:
            raise ConfigError(f"a value of the wrong type: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig(_Plain):
    """What `zerosim.initialize` takes.

    Attributes:
        stage: 0 data parallel; 1, 2, 3 partition optimizer states, gradients, parameters.
        dtype: compute dtype; below fp32 an fp32 master copy is kept.
        accumulate: micro-steps of one optimizer step.
        bucket_elements: largest number of elements reduced in one collective; None for one
            bucket a unit.
        overlap: reduce and gather while computing.
        prefetch: stage 3: how many units to gather ahead of the one that computes.
        clip: largest global gradient norm; None for no clipping.
        collectives: zerosim's rings or the backend's own calls.
        chunk_bytes: a ring cuts longer messages into chunks of this size.
        learning_rate, beta1, beta2, epsilon, weight_decay: of AdamW.
        decoupled_weight_decay: False for Adam, which adds the decay to the gradient.
        initial_loss_scale: fp16 only; halved at an overflow.
        dynamic_loss_scale: fp16 only; False to keep the initial scale.
        loss_scale_interval: fp16 only; doubled after so many steps without overflow.
        loss_scale_hysteresis: fp16 only; overflows until the scale is halved.
        refill_hysteresis: fp16 only; a step without overflow makes it count anew, not only a
            doubling.
        least_loss_scale: fp16 only; it is not halved below this.
        units: patterns of module names ("blocks.*") that communicate together; empty for
            the default: blocks of containers, direct children, and the rest as "root".
    """

    stage: int = 0
    dtype: DType = DType.BF16
    accumulate: int = 1
    bucket_elements: int | None = None
    overlap: bool = True
    prefetch: int = 1
    clip: float | None = None
    collectives: CollectivesKind = CollectivesKind.RING
    chunk_bytes: int = 4 << 20
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = True
    initial_loss_scale: float = 65536.0
    dynamic_loss_scale: bool = True
    loss_scale_interval: int = 2000
    loss_scale_hysteresis: int = 1
    refill_hysteresis: bool = False
    least_loss_scale: float = 1.0
    units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _require_whole(self, "stage", "accumulate", "prefetch", "chunk_bytes")
        _require_whole(self, "loss_scale_interval", "loss_scale_hysteresis")
        if self.bucket_elements is not None:
            _require_whole(self, "bucket_elements")
        _require(not isinstance(self.units, str), "units", repr(self.units), "a tuple of patterns")
        _require(self.stage in STAGES, "stage", self.stage, "0, 1, 2 or 3")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            _require(0 <= value < 1, name, value, "0 or more, and below 1")
        for name in ("epsilon", "weight_decay"):
            value = getattr(self, name)
            _require(value >= 0 and math.isfinite(value), name, value, "0 or more")
        object.__setattr__(self, "dtype", choice(DType, self.dtype, "dtype"))
        object.__setattr__(
            self, "collectives", choice(CollectivesKind, self.collectives, "collectives")
        )
        object.__setattr__(self, "units", tuple(self.units))
        at_least_one = "a whole number of 1 or more"
        _require(self.accumulate >= 1, "accumulate", self.accumulate, at_least_one)
        _require(
            self.bucket_elements is None or self.bucket_elements >= 1,
            "bucket-elements",
            self.bucket_elements,
            at_least_one,
        )
        _require(self.prefetch >= 0, "prefetch", self.prefetch, "0 or more units")
        _require(
            self.clip is None or (self.clip > 0 and math.isfinite(self.clip)),
            "clip",
            self.clip,
            "a positive norm",
        )
        _require(self.chunk_bytes >= 16, "chunk bytes", self.chunk_bytes, "16 or more")
        positive_rate = self.learning_rate >= 0 and math.isfinite(self.learning_rate)
        _require(positive_rate, "learning rate", self.learning_rate, "0 or more")
        scale_works = self.initial_loss_scale > 0 and math.isfinite(self.initial_loss_scale)
        _require(scale_works, "initial loss scale", self.initial_loss_scale, "a positive number")
        least_works = self.least_loss_scale > 0 and math.isfinite(self.least_loss_scale)
        _require(least_works, "least loss scale", self.least_loss_scale, "a positive number")
        for name in ("loss_scale_interval", "loss_scale_hysteresis"):
            value = getattr(self, name)
            _require(value >= 1, name.replace("_", " "), value, at_least_one)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(_Plain):
    """What `zerosim run` adds to the engine's configuration.

    Attributes:
        ranks: number of processes.
        steps: optimizer steps.
        batch: sequences in a micro-batch of one rank.
        seed: of the initial weights and of the order of the data.
        timeout_s: a rank that is silent for so long is given up.
        memory: whether traces say what is alive in memory, by role.
    """

    model: ModelName = ModelName.GPT_TINY
    ranks: int = 4
    steps: int = 10
    batch: int = 4
    seed: int = 0
    device: DeviceKind = DeviceKind.CPU
    timeout_s: float = 60.0
    memory: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", choice(ModelName, self.model, "model"))
        object.__setattr__(self, "device", choice(DeviceKind, self.device, "device"))
        _require_whole(self, "ranks", "steps", "batch", "seed")
        at_least_one = "a whole number of 1 or more"
        _require(self.ranks >= 1, "ranks", self.ranks, at_least_one)
        _require(self.steps >= 1, "steps", self.steps, at_least_one)
        _require(self.batch >= 1, "batch", self.batch, at_least_one)
        _require(0 <= self.seed < _SEEDS, "seed", self.seed, f"0 to {_SEEDS - 1}")
        _require(self.timeout_s > 0, "timeout", self.timeout_s, "a positive number of seconds")
        in_time = self.timeout_s <= _LONGEST_TIMEOUT_S
        _require(in_time, "timeout", self.timeout_s, f"at most {_LONGEST_TIMEOUT_S} seconds")
