"""Options of the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from zerosim.base.config.checks import require, require_divisor
from zerosim.base.config.choices import STAGES, CollectivesKind, DType, Offload, Owners
from zerosim.base.config.option import (
    AT_LEAST_ONE,
    Configuration,
    Range,
    Spec,
    at_least,
    documented,
    positive,
)

TIERS = "ZeRO-Offload and ZeRO-Infinity"
NODES = "Nodes and ZeRO++"
ACTIVATIONS = "Activations and ZeRO-R"
"""Help panels for the options of systems that extend the stages."""

_ZERO = "zero_optimization"
_ADAM = "optimizer.params"
_CHECKPOINTS = "activation_checkpointing"
_PLACES = ", ".join(Offload)
_STAGE = Range(lambda value: value in STAGES, "0, 1, 2 or 3")
_BELOW_ONE = Range(lambda value: 0 <= value < 1, "0 or more, and below 1")
_EVEN = Range(lambda value: value >= 2 and value % 2 == 0, "an even number of 2 or more")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig(Configuration):
    """The configuration of the engine, for `zerosim.initialize`."""

    stage: Annotated[int, Spec(range=_STAGE, deepspeed=f"{_ZERO}.stage")] = 0
    """0 data parallel; 1, 2, 3 partition optimizer states, gradients, parameters."""
    dtype: Annotated[
        DType, Spec("fp32, bf16 or fp16.", deepspeed="fp16.enabled and bf16.enabled")
    ] = DType.BF16
    """The dtype of parameters, gradients and activations; below fp32 an fp32 master copy is
    kept.
    """
    accumulate: Annotated[
        int,
        Spec(
            "Micro-steps per optimizer step.",
            AT_LEAST_ONE,
            deepspeed="gradient_accumulation_steps",
        ),
    ] = 1
    bucket_elements: Annotated[
        int | None,
        Spec(
            "Elements in a gradient bucket; by default, one unit.",
            AT_LEAST_ONE,
            deepspeed=f"{_ZERO}.reduce_bucket_size",
        ),
    ] = None
    overlap: Annotated[
        bool, Spec("Overlap communication with computation.", deepspeed=f"{_ZERO}.overlap_comm")
    ] = True
    prefetch: Annotated[
        int,
        Spec(
            "Stage 3: units to prefetch.",
            at_least(0, "0 or more units"),
            deepspeed=f"{_ZERO}.stage3_prefetch_bucket_size",
        ),
    ] = 1
    clip: Annotated[
        float | None,
        Spec(
            "Clip gradients to this global norm.", positive("norm"), deepspeed="gradient_clipping"
        ),
    ] = None
    collectives: Annotated[CollectivesKind, Spec("ring or native.")] = CollectivesKind.RING
    """zerosim's ring algorithms or the backend's native collectives."""
    chunk_bytes: Annotated[int, Spec(range=at_least(16))] = 4 << 20
    """A ring splits longer messages into chunks of this many bytes."""
    learning_rate: Annotated[
        float,
        Spec(
            "Learning rate of AdamW.", at_least(0), called="learning rate", deepspeed=f"{_ADAM}.lr"
        ),
    ] = 1e-3
    beta1: Annotated[float, Spec(range=_BELOW_ONE, deepspeed=f"{_ADAM}.betas")] = 0.9
    beta2: Annotated[float, Spec(range=_BELOW_ONE, deepspeed=f"{_ADAM}.betas")] = 0.999
    epsilon: Annotated[float, Spec(range=at_least(0), deepspeed=f"{_ADAM}.eps")] = 1e-8
    weight_decay: Annotated[float, Spec(range=at_least(0), deepspeed=f"{_ADAM}.weight_decay")] = 0.0
    decoupled_weight_decay: Annotated[bool, Spec(deepspeed=f"{_ADAM}.adam_w_mode")] = True
    """True for AdamW; False for Adam, which adds the weight decay to the gradient."""
    initial_loss_scale: Annotated[
        float, Spec(range=positive("number"), deepspeed="fp16.initial_scale_power")
    ] = 65536.0
    """In fp16: the initial loss scale; it is halved at an overflow."""
    dynamic_loss_scale: Annotated[bool, Spec(deepspeed="fp16.loss_scale")] = True
    """False for a static loss scale."""
    loss_scale_interval: Annotated[
        int, Spec(range=AT_LEAST_ONE, deepspeed="fp16.loss_scale_window")
    ] = 2000
    """Number of steps without overflow after which the scale is doubled."""
    loss_scale_hysteresis: Annotated[int, Spec(range=AT_LEAST_ONE, deepspeed="fp16.hysteresis")] = 1
    """Number of overflows after which the scale is halved."""
    refill_hysteresis: Annotated[bool, Spec(deepspeed="fp16.consecutive_hysteresis")] = False
    """Restart that count at every step without overflow, not only when the scale is doubled."""
    least_loss_scale: Annotated[
        float, Spec(range=positive("number"), deepspeed="fp16.min_loss_scale")
    ] = 1.0
    """The smallest loss scale."""
    units: tuple[str, ...] = ()
    """Patterns of module names ("blocks.*") that communicate together; empty for the default:
    blocks of containers, direct children, and the rest as "root"."""
    offload_optimizer: Annotated[
        Offload,
        Spec(
            f"Stages 1 to 3: where to keep optimizer states: {_PLACES}.",
            panel=TIERS,
            least_stage=1,
            deepspeed=f"{_ZERO}.offload_optimizer.device",
        ),
    ] = Offload.NONE
    """Also where the optimizer's step runs (ZeRO-Offload; with a disk, ZeRO-Infinity)."""
    offload_param: Annotated[
        Offload,
        Spec(
            f"Stage 3: where to keep parameters: {_PLACES}.",
            panel=TIERS,
            least_stage=3,
            deepspeed=f"{_ZERO}.offload_param.device",
        ),
    ] = Offload.NONE
    """The place of a rank's parameter shards (ZeRO-Infinity)."""
    nvme_path: Annotated[
        str,
        Spec(
            "Folder for offloading to disk (nvme).",
            panel=TIERS,
            metavar="FOLDER",
            deepspeed=f"{_ZERO}.offload_optimizer.nvme_path",
        ),
    ] = ""
    disk_buffers: Annotated[
        int,
        Spec(
            "Maximum number of disk buffers in flight.",
            at_least(2),
            panel=TIERS,
            deepspeed=f"{_ZERO}.offload_optimizer.buffer_count",
        ),
    ] = 4
    delayed_update: Annotated[
        bool, Spec("Update while the next iteration computes, one step later.", panel=TIERS)
    ] = False
    """ZeRO-Offload's delayed parameter update; with `offload_optimizer`."""
    owner_broadcast: Annotated[
        Owners,
        Spec(
            "Stage 3: one owner rank keeps and broadcasts each unit, instead of a shard on each "
            f"rank: {', '.join(Owners)}.",
            panel=TIERS,
            least_stage=3,
        ),
    ] = Owners.NONE
    """With "states", gradients are reduced to the owner, which updates all of its units: ZeRO-3 as
    in the paper. With "parameters", only parameters are whole, off the device: the baseline of
    ZeRO-Infinity's bandwidth-centric partitioning.
    """
    quantize_weights: Annotated[
        bool,
        Spec(
            "Stage 3: gather int8 parameters (qwZ).",
            panel=NODES,
            least_stage=3,
            deepspeed=f"{_ZERO}.zero_quantized_weights",
        ),
    ] = False
    """In forward (ZeRO++)."""
    secondary_partition: Annotated[
        int,
        Spec(
            "Stage 3: ranks of a secondary partition of the parameters (hpZ).",
            AT_LEAST_ONE,
            panel=NODES,
            least_stage=3,
            deepspeed=f"{_ZERO}.zero_hpz_partition_size",
        ),
    ] = 1
    """The number of ranks that share the secondary copy for backward; 1 for none (ZeRO++)."""
    quantize_gradients: Annotated[
        bool,
        Spec(
            "Stage 3: reduce int4 gradients (qgZ).",
            panel=NODES,
            least_stage=3,
            deepspeed=f"{_ZERO}.zero_quantized_gradients",
        ),
    ] = False
    """Reduce by an all-to-all within nodes and one between nodes (ZeRO++)."""
    quantization_block: Annotated[int, Spec("Elements that share a scale.", _EVEN, panel=NODES)] = (
        256
    )
    """Must be even, as one byte has two int4 elements."""
    ranks_per_node: Annotated[
        int, Spec("Ranks per node; by default as launched.", at_least(0), panel=NODES)
    ] = 0
    checkpoint_activations: Annotated[
        bool, Spec("Activation checkpointing: recompute each block.", panel=ACTIVATIONS)
    ] = False
    partition_activations: Annotated[
        bool,
        Spec(
            "Partition checkpoints among tensor parallel ranks (P_a).",
            panel=ACTIVATIONS,
            needs=("checkpoint_activations", ""),
            deepspeed=f"{_CHECKPOINTS}.partition_activations",
        ),
    ] = False
    cpu_checkpointing: Annotated[
        bool,
        Spec(
            "Offload partitioned checkpoints to the host (P_a+cpu).",
            panel=ACTIVATIONS,
            needs=("checkpoint_activations", ""),
            deepspeed=f"{_CHECKPOINTS}.cpu_checkpointing",
        ),
    ] = False
    constant_buffers: Annotated[
        bool,
        Spec(
            "Reduce through two buffers of --bucket-elements (C_B).",
            panel=ACTIVATIONS,
            needs=("bucket_elements", "bucket-elements, the size of the buffers,"),
        ),
    ] = False
    contiguous_memory: Annotated[
        bool,
        Spec(
            "Preallocate memory for checkpoints and gradients (M_D).",
            panel=ACTIVATIONS,
            deepspeed=f"{_CHECKPOINTS}.contiguous_memory_optimization",
        ),
    ] = False

    @property
    def offloads_optimizer(self) -> bool:
        """True if the optimizer states are offloaded and its step runs off the device."""
        return self.offload_optimizer is not Offload.NONE

    @property
    def has_owners(self) -> bool:
        """True if one rank keeps the parameters of each unit and broadcasts them."""
        return self.owner_broadcast is not Owners.NONE

    @property
    def owners_update(self) -> bool:
        """True if gradients are reduced to the owner, which updates all of its units."""
        return self.owner_broadcast is Owners.STATES

    @property
    def quantizes(self) -> bool:
        """True if parameters or gradients are sent with fewer bits (qwZ, qgZ)."""
        return self.quantize_weights or self.quantize_gradients

    @property
    def has_secondary(self) -> bool:
        """True if backward gathers from a secondary copy that is sharded over fewer ranks (hpZ)."""
        return self.secondary_partition > 1

    @property
    def asks_alike(self) -> bool:
        """True if every rank makes identical calls, so that one can represent the others.

        A ring's messages go to different peers on each rank; the calls of an owner and of hpZ's
        groups do not include all ranks.
        """
        is_native = self.collectives is CollectivesKind.NATIVE
        return is_native and not (self.has_owners or self.has_secondary)

    @property
    def offloads(self) -> bool:
        """True if any state is kept off the device, or copied between tiers."""
        parameters = self.offload_param is not Offload.NONE
        return self.cpu_checkpointing or self.offloads_optimizer or parameters

    def __post_init__(self) -> None:
        require(not isinstance(self.units, str), "units", repr(self.units), "a tuple of patterns")
        object.__setattr__(self, "units", tuple(self.units))
        Configuration.__post_init__(self)
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
        quantizes = {
            "quantize-weights": self.quantize_weights,
            "quantize-gradients": self.quantize_gradients,
        }
        for what, is_asked in quantizes.items():
            carries = self.collectives is CollectivesKind.RING or not is_asked
            require(carries, "collectives", f"{self.collectives} with {what}", "ring")
        gathers = {
            "quantize-weights": self.quantize_weights,
            "secondary-partition": self.has_secondary,
        }
        for what, is_asked in gathers.items():
            is_alone = not (self.has_owners and is_asked)
            require(is_alone, what, "asked for with owner-broadcast", "one of the two")
        self._require_owners()

    def _require_owners(self) -> None:
        """Refuse options that have no meaning if whole units have owners."""
        asked, is_away = f"{self.owner_broadcast} with", self.offload_param is not Offload.NONE
        if self.owner_broadcast is Owners.PARAMETERS:
            found = f"{asked} offload-param {self.offload_param}"
            require(is_away, "owner-broadcast", found, "offload-param cpu or nvme with it")
        others = {
            "offload-param": is_away,
            "offload-optimizer": self.offloads_optimizer,
            "quantize-gradients": self.quantize_gradients,
            "bucket-elements": self.bucket_elements is not None,  # a unit is reduced to one rank
        }
        for what, is_asked in others.items() if self.owners_update else ():
            require(not is_asked, "owner-broadcast", f"{asked} {what}", "one of the two")

    def require_ranks(self, num_ranks: int, tensor_parallel: int = 1) -> None:
        """Check that the ranks can be grouped as this configuration requires.

        Args:
            num_ranks: number of ranks of the whole program.
            tensor_parallel: number of ranks that compute each layer together.

        Raises:
            ConfigError: a group size does not divide the number of ranks.
        """
        divided = num_ranks // tensor_parallel
        require_divisor("secondary-partition", self.secondary_partition, divided)
        if self.quantize_gradients and self.ranks_per_node:
            require_divisor("ranks-per-node", self.ranks_per_node, num_ranks)
