"""Options of `zerosim run` besides the engine's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from zerosim.base.config.checks import require
from zerosim.base.config.choices import DeviceKind, ModelName
from zerosim.base.config.engine import ACTIVATIONS, TIERS
from zerosim.base.config.model import OR_A_FILE, ModelFile, Shape, model_named
from zerosim.base.config.option import (
    AT_LEAST_ONE,
    Configuration,
    Range,
    Spec,
    at_least,
    documented,
)

_SEEDS = 2**32
_LONGEST_TIMEOUT_S = 86_400
"""One day: not every platform supports longer timeouts."""
_SECONDS = Range(lambda value: value > 0, "a positive number of seconds")
_IN_SEEDS = Range(lambda value: 0 <= value < _SEEDS, f"0 to {_SEEDS - 1}")


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig(Configuration):
    """The options of a run, besides the engine's configuration."""

    model: Annotated[
        ModelName | ModelFile, Spec(f"{', '.join(ModelName)}, {OR_A_FILE}.", read=model_named)
    ] = ModelName.GPT_TINY
    ranks: Annotated[int, Spec(range=AT_LEAST_ONE)] = 4
    """Processes."""
    steps: Annotated[int, Spec("Optimizer steps.", AT_LEAST_ONE)] = 10
    batch: Annotated[
        int,
        Spec(
            "Sequences in a rank's micro-batch.",
            AT_LEAST_ONE,
            deepspeed="train_micro_batch_size_per_gpu",
        ),
    ] = 4
    seed: Annotated[int, Spec("Random seed of weights and data.", _IN_SEEDS)] = 0
    device: Annotated[DeviceKind, Spec("cpu or cuda.")] = DeviceKind.CPU
    timeout_s: Annotated[float, Spec(range=_SECONDS, called="timeout")] = 60.0
    """Seconds without progress after which a rank is considered to hang."""
    memory: Annotated[bool, Spec("Record the live tensors, by role.")] = True
    layers: Annotated[
        int | None, Spec("Override the model's number of layers (GPT, Llama).", AT_LEAST_ONE)
    ] = None
    width: Annotated[int | None, Spec("Override the model's width (GPT).", AT_LEAST_ONE)] = None
    heads: Annotated[int | None, Spec("Override the number of heads (GPT).", AT_LEAST_ONE)] = None
    context_length: Annotated[
        int | None, Spec("Override the sequence length (GPT, Llama).", AT_LEAST_ONE)
    ] = None
    vocabulary: Annotated[
        int | None, Spec("Override the vocabulary size (GPT, Llama).", at_least(256))
    ] = None
    tensor_parallel: Annotated[
        int,
        Spec(
            "Ranks that compute each layer together.", panel=ACTIVATIONS, after="cpu_checkpointing"
        ),
    ] = 1
    """Size of a tensor-parallel group; the groups are data parallel."""
    tiles: Annotated[
        int,
        Spec(
            "Split large linear layers into this many tiles.",
            AT_LEAST_ONE,
            panel=TIERS,
            after="resume",
        ),
    ] = 1
    """Number of tiles, computed one after another (ZeRO-Infinity, memory-centric tiling)."""
    device_bytes: Annotated[
        int | None,
        Spec(
            "Device memory limit: 48MB, 1GiB, 50000000.",
            AT_LEAST_ONE,
            panel=TIERS,
            after="tiles",
            metavar="BYTES",
        ),
    ] = None
    resume: Annotated[
        bool,
        Spec(
            "Resume from the last complete state in --nvme-path.",
            panel=TIERS,
            after="owner_broadcast",
        ),
    ] = False

    @property
    def shape(self) -> Shape:
        """Overrides of the model's own shape."""
        return Shape(
            layers=self.layers,
            width=self.width,
            heads=self.heads,
            context_length=self.context_length,
            vocabulary=self.vocabulary,
        )

    def __post_init__(self) -> None:
        Configuration.__post_init__(self)
        divides = self.tensor_parallel >= 1 and self.ranks % self.tensor_parallel == 0
        of_ranks = f"a divisor of the {self.ranks} ranks"
        require(divides, "tensor-parallel", self.tensor_parallel, of_ranks)
        in_time = self.timeout_s <= _LONGEST_TIMEOUT_S
        require(in_time, "timeout", self.timeout_s, f"at most {_LONGEST_TIMEOUT_S} seconds")
