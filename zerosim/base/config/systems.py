"""The ZeRO family by name: the options that each of its systems sets.

Sources: ZeRO and ZeRO-R (arXiv 1910.02054), ZeRO-Offload (arXiv 2101.06840), ZeRO-Infinity
(arXiv 2104.07857), ZeRO++ (arXiv 2306.10209).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zerosim.base.config.choices import Offload
from zerosim.base.config.engine import EngineConfig
from zerosim.base.config.run import RunConfig

_CHECKPOINTS = {"checkpoint_activations": True}
_PARTITIONED = {**_CHECKPOINTS, "partition_activations": True}
_MEMORY = {"bucket_elements": 65_536, "constant_buffers": True, "contiguous_memory": True}
_HOST = {"offload_optimizer": "cpu"}
_ALL_HOST = {**_HOST, "offload_param": "cpu"}
_DISK = {"offload_optimizer": "nvme", "offload_param": "nvme"}
_PLUS = {"quantize_weights": True, "secondary_partition": 2, "quantize_gradients": True}


@dataclass(frozen=True, slots=True)
class Preset:
    """One system of the family.

    Attributes:
        name: its name on the command line.
        title: its name in tables.
        engine: the options of `EngineConfig` that it sets.
        run: the options of `RunConfig` that it sets.
    """

    name: str
    title: str
    engine: Mapping[str, Any]
    run: Mapping[str, Any] = field(default_factory=dict)

    @property
    def needs_disk(self) -> bool:
        """True if it offloads to a disk."""
        return Offload.NVME in (
            self.engine.get("offload_optimizer"),
            self.engine.get("offload_param"),
        )

    def configure(self, config: EngineConfig, nvme_path: str) -> EngineConfig:
        """A configuration with the options of this system.

        Args:
            nvme_path: the folder for state on a disk.
        """
        changed = {**self.engine, "nvme_path": nvme_path if self.needs_disk else ""}
        return replace(config, **changed)

    def run_of(self, run: RunConfig) -> RunConfig:
        """A run configuration with the options of this system."""
        return replace(run, **self.run)


SYSTEMS = (
    Preset("data-parallel", "data parallel", {"stage": 0}),
    Preset("zero-1", "ZeRO-1", {"stage": 1}),
    Preset("zero-2", "ZeRO-2", {"stage": 2}),
    Preset("zero-3", "ZeRO-3", {"stage": 3}),
    Preset("checkpoints", "ZeRO-3, activation checkpointing", {"stage": 3, **_CHECKPOINTS}),
    Preset(
        "zero-r",
        "ZeRO-1 + ZeRO-R: P_a, C_B, M_D, tensor parallel 2",
        {"stage": 1, **_PARTITIONED, **_MEMORY},
        {"tensor_parallel": 2},
    ),
    Preset(
        "zero-r-cpu",
        "ZeRO-1 + ZeRO-R: P_a+cpu, C_B, M_D, tensor parallel 2",
        {"stage": 1, **_PARTITIONED, "cpu_checkpointing": True, **_MEMORY},
        {"tensor_parallel": 2},
    ),
    Preset("offload-1", "ZeRO-Offload, ZeRO-1", {"stage": 1, **_HOST}),
    Preset("offload-2", "ZeRO-Offload, ZeRO-2", {"stage": 2, **_HOST}),
    Preset(
        "offload-2-delayed",
        "ZeRO-Offload, ZeRO-2, update delayed",
        {"stage": 2, **_HOST, "delayed_update": True},
    ),
    Preset("offload-3", "ZeRO-Offload, ZeRO-3", {"stage": 3, **_HOST}),
    Preset("infinity-cpu", "ZeRO-Infinity, all on the host", {"stage": 3, **_ALL_HOST}),
    Preset("infinity-nvme", "ZeRO-Infinity, all on a disk", {"stage": 3, **_DISK}),
    Preset(
        "infinity-owner",
        "ZeRO-Infinity, on a disk at owners",
        {"stage": 3, **_DISK, "owner_broadcast": "parameters"},
    ),
    Preset("infinity-tiles", "ZeRO-Infinity, 4 tiles", {"stage": 3, **_ALL_HOST}, {"tiles": 4}),
    Preset("qwz", "ZeRO++, qwZ", {"stage": 3, "quantize_weights": True}),
    Preset("hpz", "ZeRO++, hpZ", {"stage": 3, "secondary_partition": 2}),
    Preset("qgz", "ZeRO++, qgZ", {"stage": 3, "quantize_gradients": True}),
    Preset("zero++", "ZeRO++, all three", {"stage": 3, **_PLUS}),
)
"""In the order of tables; each system on its own, in bf16, with 2 ranks per node."""
