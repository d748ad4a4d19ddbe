"""What can be asked of the engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zerosim.config.checks import AT_LEAST_ONE, Plain, require, require_divisor, require_whole
from zerosim.config.choices import STAGES, CollectivesKind, DType, Offload, choice


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig(Plain):
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

    @property
    def offloads_optimizer(self) -> bool:
        """True if the optimizer's states are kept beside the device, and its steps done there."""
        return self.offload_optimizer is not Offload.NONE

    @property
    def offloads(self) -> bool:
        """True if anything is kept beside the device, or on its way to or from there."""
        return self.cpu_checkpointing or any(
            kind is not Offload.NONE for kind in (self.offload_optimizer, self.offload_param)
        )

    def __post_init__(self) -> None:
        require_whole(self, "stage", "accumulate", "prefetch", "chunk_bytes")
        require_whole(self, "loss_scale_interval", "loss_scale_hysteresis")
        if self.bucket_elements is not None:
            require_whole(self, "bucket_elements")
        require(not isinstance(self.units, str), "units", repr(self.units), "a tuple of patterns")
        require(self.stage in STAGES, "stage", self.stage, "0, 1, 2 or 3")
        for name in ("beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, name, value, "0 or more, and below 1")
        for name in ("epsilon", "weight_decay"):
            value = getattr(self, name)
            require(value >= 0 and math.isfinite(value), name, value, "0 or more")
        object.__setattr__(self, "dtype", choice(DType, self.dtype, "dtype"))
        object.__setattr__(
            self, "collectives", choice(CollectivesKind, self.collectives, "collectives")
        )
        object.__setattr__(self, "units", tuple(self.units))
        require(self.accumulate >= 1, "accumulate", self.accumulate, AT_LEAST_ONE)
        require(
            self.bucket_elements is None or self.bucket_elements >= 1,
            "bucket-elements",
            self.bucket_elements,
            AT_LEAST_ONE,
        )
        require(self.prefetch >= 0, "prefetch", self.prefetch, "0 or more units")
        require(
            self.clip is None or (self.clip > 0 and math.isfinite(self.clip)),
            "clip",
            self.clip,
            "a positive norm",
        )
        require(self.chunk_bytes >= 16, "chunk bytes", self.chunk_bytes, "16 or more")
        positive_rate = self.learning_rate >= 0 and math.isfinite(self.learning_rate)
        require(positive_rate, "learning rate", self.learning_rate, "0 or more")
        scale_works = self.initial_loss_scale > 0 and math.isfinite(self.initial_loss_scale)
        require(scale_works, "initial loss scale", self.initial_loss_scale, "a positive number")
        least_works = self.least_loss_scale > 0 and math.isfinite(self.least_loss_scale)
        require(least_works, "least loss scale", self.least_loss_scale, "a positive number")
        for name in ("loss_scale_interval", "loss_scale_hysteresis"):
            value = getattr(self, name)
            require(value >= 1, name.replace("_", " "), value, AT_LEAST_ONE)
        self._check_tiers()
        self._check_nodes()
        self._check_activations()

    def require_ranks(self, num_ranks: int, tensor_parallel: int = 1) -> None:
        """See that so many ranks can be grouped as this asks for.

        Args:
            num_ranks: of the whole program.
            tensor_parallel: so many of them compute each layer together.

        Raises:
            ConfigError: a size of groups does not divide them.
        """
        divided = num_ranks // tensor_parallel
        require_divisor("secondary-partition", self.secondary_partition, divided)
        if self.quantize_gradients and self.ranks_per_node:
            require_divisor("ranks-per-node", self.ranks_per_node, num_ranks)

    def _check_tiers(self) -> None:
        for name in ("offload_optimizer", "offload_param"):
            kind = choice(Offload, getattr(self, name), name.replace("_", "-"))
            object.__setattr__(self, name, kind)
        require_whole(self, "disk_buffers")
        require(self.disk_buffers >= 2, "disk-buffers", self.disk_buffers, "2 or more")
        offloads = self.offload_optimizer is not Offload.NONE
        _require_stage(self, offloads, "offload-optimizer", 1)
        _require_stage(self, self.offload_param is not Offload.NONE, "offload-param", 3)
        if Offload.NVME in (self.offload_optimizer, self.offload_param):
            require(bool(self.nvme_path), "nvme-path", "not given", "a folder on a disk")
        alone = self.offload_optimizer is Offload.CPU and self.offload_param is Offload.NONE
        require(
            alone or not self.delayed_update,
            "delayed-update",
            f"asked for with offload-optimizer {self.offload_optimizer} and offload-param "
            f"{self.offload_param}",
            "offload-optimizer cpu and offload-param none with it",
        )
        require(
            self.offload_param is not Offload.NONE or not self.owner_broadcast,
            "owner-broadcast",
            "asked for without offload-param",
            "offload-param cpu or nvme with it",
        )

    def _check_nodes(self) -> None:
        require_whole(self, "secondary_partition", "quantization_block", "ranks_per_node")
        require(self.ranks_per_node >= 0, "ranks-per-node", self.ranks_per_node, "0 or more")
        size, block = self.secondary_partition, self.quantization_block
        require(size >= 1, "secondary-partition", size, AT_LEAST_ONE)
        even = block >= 2 and block % 2 == 0  # two int4 elements are one byte
        require(even, "quantization-block", block, "an even number of 2 or more")
        _require_stage(self, self.quantize_weights, "quantize-weights", 3)
        _require_stage(self, size > 1, "secondary-partition", 3)
        _require_stage(self, self.quantize_gradients, "quantize-gradients", 3)
        for wants, what in (
            (self.quantize_weights, "quantize-weights"),
            (self.quantize_gradients, "quantize-gradients"),
        ):
            carries = self.collectives is CollectivesKind.RING or not wants
            require(carries, "collectives", f"{self.collectives} with {what}", "ring")
        for wants, what in (
            (self.quantize_weights, "quantize-weights"),
            (size > 1, "secondary-partition"),
        ):
            gathers = not (self.owner_broadcast and wants)
            require(gathers, what, "asked for with owner-broadcast", "one of the two")

    def _check_activations(self) -> None:
        for name in ("partition_activations", "cpu_checkpointing"):
            require(
                self.checkpoint_activations or not getattr(self, name),
                name.replace("_", "-"),
                "asked for without checkpoint-activations",
                "checkpoint-activations with it",
            )
        require(
            self.bucket_elements is not None or not self.constant_buffers,
            "constant-buffers",
            "asked for without bucket-elements",
            "bucket-elements, the size of the buffers, with it",
        )


def _require_stage(config: EngineConfig, wants: bool, what: str, stage: int) -> None:
    expected = "stage 3" if stage == 3 else f"a stage of {stage} or more"
    given = f"asked for in stage {config.stage}"
    require(config.stage >= stage or not wants, what, given, expected)
