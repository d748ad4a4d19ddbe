"""What `zerosim run` adds to the engine's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from zerosim.config.checks import AT_LEAST_ONE, Plain, require, require_whole
from zerosim.config.choices import DeviceKind, ModelName, choice

_SEEDS = 2**32
_LONGEST_TIMEOUT_S = 86_400
"""A day: clocks that wait longer do not exist everywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(Plain):
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
        require_whole(self, "ranks", "steps", "batch", "seed")
        require(self.ranks >= 1, "ranks", self.ranks, AT_LEAST_ONE)
        require(self.steps >= 1, "steps", self.steps, AT_LEAST_ONE)
        require(self.batch >= 1, "batch", self.batch, AT_LEAST_ONE)
        require_whole(self, "tensor_parallel", "tiles")
        divides = self.tensor_parallel >= 1 and self.ranks % self.tensor_parallel == 0
        of_ranks = f"a divisor of the {self.ranks} ranks"
        require(divides, "tensor-parallel", self.tensor_parallel, of_ranks)
        require(self.tiles >= 1, "tiles", self.tiles, AT_LEAST_ONE)
        for name in ("layers", "width", "device_bytes"):
            value = getattr(self, name)
            if value is not None:
                require_whole(self, name)
                require(value >= 1, name.replace("_", "-"), value, AT_LEAST_ONE)
        require(0 <= self.seed < _SEEDS, "seed", self.seed, f"0 to {_SEEDS - 1}")
        require(self.timeout_s > 0, "timeout", self.timeout_s, "a positive number of seconds")
        in_time = self.timeout_s <= _LONGEST_TIMEOUT_S
        require(in_time, "timeout", self.timeout_s, f"at most {_LONGEST_TIMEOUT_S} seconds")
