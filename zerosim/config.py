"""What can be asked of the engine and of a run, checked in one place.

Imports the standard library, `zerosim.errors` and `zerosim.tiers`.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, Self, TypeVar, cast

from zerosim.errors import ConfigError
from zerosim.tiers import Tier


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


class Offload(StrEnum):
    """Where something is kept that would else be on the device."""

    NONE = "none"
    CPU = "cpu"
    NVME = "nvme"

    @property
    def tier(self) -> Tier:
        """The tier that this is."""
        return _TIERS[self]


_TIERS = {Offload.NONE: Tier.DEVICE, Offload.CPU: Tier.HOST, Offload.NVME: Tier.DISK}

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


def _require_stage(config: EngineConfig, wants: bool, what: str, stage: int) -> None:
    expected = "stage 3" if stage == 3 else f"a stage of {stage} or more"
    given = f"asked for in stage {config.stage}"
    _require(config.stage >= stage or not wants, what, given, expected)


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
        offload_optimizer: stages 1 to 3: where the optimizer's states are kept and its steps
            done (ZeRO-Offload, on a disk ZeRO-Infinity).
        offload_param: stage 3: where a rank's own parameters are kept (ZeRO-Infinity).
        nvme_path: folder for what is kept on a disk; needed if something is.
        disk_buffers: most buffers in the host's memory that wait for the disk at once.
        delayed_update: with `offload_optimizer`: update while the next iteration computes, so
            that parameters are one step behind (ZeRO-Offload's delayed parameter update).
        owner_broadcast: stage 3 with `offload_param`: one rank keeps all of a unit and
            broadcasts it, where else each keeps its part and all gather (bandwidth-centric).
        quantize_weights: stage 3: gather int8 parameters in forward (ZeRO++, qwZ).
        secondary_partition: stage 3: so many ranks keep all parameters among them for backward,
            1 for no such copy (ZeRO++, hpZ).
        quantize_gradients: stage 3: reduce int4 gradients by an all-to-all within and one
            between nodes (ZeRO++, qgZ).
        quantization_block: elements that share a scale.
        ranks_per_node: how ranks are grouped in nodes; 0 for as they were launched.
        checkpoint_activations: keep only the inputs of blocks, and compute the rest again.
        partition_activations: divide those inputs among a tensor parallel group (ZeRO-R, P_a).
        cpu_checkpointing: and keep them in the host's memory (P_a+cpu).
        constant_buffers: reduce through buffers of constant size (ZeRO-R, C_B); needs
            `bucket_elements`.
        contiguous_memory: keep checkpoints and gradients in memory of their own, allocated once
            (ZeRO-R, M_D).
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
    offload_optimizer: Offload = Offload.NONE
    offload_param: Offload = Offload.NONE
    nvme_path: str = ""
    disk_buffers: int = 4
    delayed_update: bool = False
    owner_broadcast: bool = False
    quantize_weights: bool = False
    secondary_partition: int = 1
    quantize_gradients: bool = False
    quantization_block: int = 256
    ranks_per_node: int = 0
    checkpoint_activations: bool = False
    partition_activations: bool = False
    cpu_checkpointing: bool = False
    constant_buffers: bool = False
    contiguous_memory: bool = False

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
        self._check_tiers()
        self._check_nodes()
        self._check_activations()

    def _check_tiers(self) -> None:
        for name in ("offload_optimizer", "offload_param"):
            kind = choice(Offload, getattr(self, name), name.replace("_", "-"))
            object.__setattr__(self, name, kind)
        _require_whole(self, "disk_buffers")
        _require(self.disk_buffers >= 2, "disk-buffers", self.disk_buffers, "2 or more")
        offloads = self.offload_optimizer is not Offload.NONE
        _require_stage(self, offloads, "offload-optimizer", 1)
        _require_stage(self, self.offload_param is not Offload.NONE, "offload-param", 3)
        if Offload.NVME in (self.offload_optimizer, self.offload_param):
            _require(bool(self.nvme_path), "nvme-path", "not given", "a folder on a disk")
        _require(
            offloads or not self.delayed_update,
            "delayed-update",
            "asked for without offload-optimizer",
            "offload-optimizer cpu or nvme with it",
        )
        _require(
            self.offload_param is not Offload.NONE or not self.owner_broadcast,
            "owner-broadcast",
            "asked for without offload-param",
            "offload-param cpu or nvme with it",
        )

    def _check_nodes(self) -> None:
        _require_whole(self, "secondary_partition", "quantization_block", "ranks_per_node")
        _require(self.ranks_per_node >= 0, "ranks-per-node", self.ranks_per_node, "0 or more")
        at_least_one = "a whole number of 1 or more"
        size, block = self.secondary_partition, self.quantization_block
        _require(size >= 1, "secondary-partition", size, at_least_one)
        even = block >= 2 and block % 2 == 0  # two int4 elements are one byte
        _require(even, "quantization-block", block, "an even number of 2 or more")
        _require_stage(self, self.quantize_weights, "quantize-weights", 3)
        _require_stage(self, size > 1, "secondary-partition", 3)
        _require_stage(self, self.quantize_gradients, "quantize-gradients", 3)

    def _check_activations(self) -> None:
        for name in ("partition_activations", "cpu_checkpointing"):
            _require(
                self.checkpoint_activations or not getattr(self, name),
                name.replace("_", "-"),
                "asked for without checkpoint-activations",
                "checkpoint-activations with it",
            )
        _require(
            self.bucket_elements is not None or not self.constant_buffers,
            "constant-buffers",
            "asked for without bucket-elements",
            "bucket-elements, the size of the buffers, with it",
        )


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
        layers, width: of a GPT, in place of what its name stands for; None to leave it.
        tensor_parallel: so many ranks compute each layer together; the others are data parallel.
        tiles: cut each large linear layer into so many, computed one after another
            (ZeRO-Infinity, memory-centric tiling).
        device_bytes: limit of the device's memory; None for no limit.
        resume: continue from the last good state in the engine's `nvme_path`.
    """

    model: ModelName = ModelName.GPT_TINY
    ranks: int = 4
    steps: int = 10
    batch: int = 4
    seed: int = 0
    device: DeviceKind = DeviceKind.CPU
    timeout_s: float = 60.0
    memory: bool = True
    layers: int | None = None
    width: int | None = None
    tensor_parallel: int = 1
    tiles: int = 1
    device_bytes: int | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", choice(ModelName, self.model, "model"))
        object.__setattr__(self, "device", choice(DeviceKind, self.device, "device"))
        _require_whole(self, "ranks", "steps", "batch", "seed")
        at_least_one = "a whole number of 1 or more"
        _require(self.ranks >= 1, "ranks", self.ranks, at_least_one)
        _require(self.steps >= 1, "steps", self.steps, at_least_one)
        _require(self.batch >= 1, "batch", self.batch, at_least_one)
        _require_whole(self, "tensor_parallel", "tiles")
        divides = self.tensor_parallel >= 1 and self.ranks % self.tensor_parallel == 0
        of_ranks = f"a divisor of the {self.ranks} ranks"
        _require(divides, "tensor-parallel", self.tensor_parallel, of_ranks)
        _require(self.tiles >= 1, "tiles", self.tiles, at_least_one)
        for name in ("layers", "width", "device_bytes"):
            value = getattr(self, name)
            if value is not None:
                _require_whole(self, name)
                _require(value >= 1, name.replace("_", "-"), value, at_least_one)
        _require(0 <= self.seed < _SEEDS, "seed", self.seed, f"0 to {_SEEDS - 1}")
        _require(self.timeout_s > 0, "timeout", self.timeout_s, "a positive number of seconds")
        in_time = self.timeout_s <= _LONGEST_TIMEOUT_S
        _require(in_time, "timeout", self.timeout_s, f"at most {_LONGEST_TIMEOUT_S} seconds")
