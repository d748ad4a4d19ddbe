"""zerosim's settings from a DeepSpeed configuration: the engine's, and others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zerosim.base.config import DType, EngineConfig
from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config.batch import BatchSizes, batch_sizes
from zerosim.train.deepspeed.config.check import KEYS, CheckedKey, Given, check
from zerosim.train.deepspeed.config.family import offload, same_options
from zerosim.train.deepspeed.config.keys import Treatment, shown
from zerosim.train.deepspeed.config.schedule import Schedule, make_schedule
from zerosim.train.deepspeed.config.source import read_document
from zerosim.train.deepspeed.config.table_zero import SECTION as ZERO

_ADAM, _ADAMW = "adam", "adamw"
_TORCH_WEIGHT_DECAY = 0.01
"""Options of torch.optim.AdamW, which DeepSpeed uses with torch_adam."""
_WORTH_SAYING = (
    "gradient_clipping",
    f"{ZERO}.stage",
    f"{ZERO}.reduce_bucket_size",
    f"{ZERO}.stage3_prefetch_bucket_size",
)
DTYPES = {
    "fp32": DType.FP32,
    "float32": DType.FP32,
    "float": DType.FP32,
    "fp16": DType.FP16,
    "float16": DType.FP16,
    "half": DType.FP16,
    "bf16": DType.BF16,
    "bfloat16": DType.BF16,
}
"""The dtypes, by every name that DeepSpeed accepts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of zerosim that correspond to a DeepSpeed configuration.

    Attributes:
        engine: everything except the number of prefetched units, which depends on the model.
        prefetch_elements: stage 3: elements that may be prefetched.
        has_optimizer: whether there is an `optimizer` section; otherwise the program passes its
            own.
        schedule: the learning rate schedule; None for a constant rate.
        drop_last: whether an incomplete last batch is dropped.
        lines: the treatment of every given key.
        defaults: DeepSpeed's values of relevant keys that were not given.
    """

    engine: EngineConfig
    prefetch_elements: int
    sizes: BatchSizes
    has_optimizer: bool
    schedule: Schedule | None
    drop_last: bool
    lines: tuple[CheckedKey, ...]
    defaults: tuple[tuple[str, str], ...]

    def ignored(self) -> list[str]:
        """Given keys without effect: ignored, and different from DeepSpeed's default."""
        found = (one for one in self.lines if one.treatment is Treatment.IGNORED)
        return [one.path for one in found if not one.is_default]

    def report(self) -> str:
        """The treatment of the configuration, one line per key."""
        lines = [f"{one.treatment}: {one.path} = {one.value}: {one.sentence}" for one in self.lines]
        lines += [
            f"DeepSpeed's default: {path} = {value}: {KEYS[path].sentence}"
            for path, value in self.defaults
        ]
        return "\n".join(lines)


def read_settings(source: object, num_ranks: int) -> Settings:
    """Parse a DeepSpeed configuration, or raise an error with the reason in one line.

    Args:
        source: see `source.read_document`.
        num_ranks: ranks that train together, for the batch sizes.

    Raises:
        ConfigError: a key or value that zerosim refuses.
    """
    given = check(read_document(source))
    schedule, optimizer = _schedule(given), _optimizer(given)
    engine = EngineConfig(
        stage=given[f"{ZERO}.stage"],
        dtype=_dtype(given),
        accumulate=(sizes := batch_sizes(given, num_ranks)).accumulate,
        bucket_elements=given[f"{ZERO}.reduce_bucket_size"],
        overlap=_overlaps(given),
        clip=given["gradient_clipping"] or None,
        **optimizer,
        **_loss_scale(given),
        **offload(given),
        **same_options(given, num_ranks),
    )
    return Settings(
        engine=engine,
        prefetch_elements=given[f"{ZERO}.stage3_prefetch_bucket_size"],
        sizes=sizes,
        has_optimizer="optimizer.type" in given,
        schedule=schedule,
        drop_last=given["dataloader_drop_last"],
        lines=given.lines,
        defaults=_defaults(given),
    )


def _overlaps(given: Given) -> bool:
    value = given[f"{ZERO}.overlap_comm"]
    return bool(given[f"{ZERO}.stage"] == 3 if value is None else value)


def compute_dtype(given: Given) -> DType:
    """The dtype in which parameters compute.

    Raises:
        ConfigError: two are enabled.
    """
    fp16, bf16 = given["fp16.enabled"], given["bf16.enabled"]
    if fp16 and bf16:
        raise ConfigError("fp16.enabled and bf16.enabled are both true: expected one of them")
    return DType.FP16 if fp16 else DType.BF16 if bf16 else DType.FP32


def _dtype(given: Given) -> DType:
    dtype = compute_dtype(given)
    for path in (
        "communication_data_type",
        "data_types.grad_accum_dtype",
        "data_types.param_dtype",
        "data_types.buffer_dtype",
    ):
        value = given[path]
        if value is not None and DTYPES[value] is not dtype:
            raise ConfigError(
                f"{path} is {shown(value)}: refused: the compute dtype is {dtype}, which "
                "zerosim also uses for buffers and gradients; delete the key"
            )
    return dtype


def _loss_scale(given: Given) -> dict[str, Any]:
    if not given["fp16.enabled"]:
        return {}
    static = given["fp16.loss_scale"]
    return {
        "initial_loss_scale": float(static or 2 ** given["fp16.initial_scale_power"]),
        "dynamic_loss_scale": not static,
        "loss_scale_interval": given["fp16.loss_scale_window"],
        "loss_scale_hysteresis": given["fp16.hysteresis"] if given[f"{ZERO}.stage"] else 1,
        "refill_hysteresis": given["fp16.consecutive_hysteresis"],
        "least_loss_scale": float(given["fp16.min_loss_scale"]),
    }


def _optimizer(given: Given) -> dict[str, Any]:
    if "optimizer.type" not in given:
        if any(line.path.startswith("optimizer") for line in given.lines):
            raise ConfigError("optimizer has no type: expected Adam or AdamW")
        return {}
    name = given["optimizer.type"]
    if name.lower() not in (_ADAM, _ADAMW):
        raise ConfigError(
            f"optimizer.type is {shown(name)}: refused: zerosim has Adam and AdamW, try one of them"
        )
    decoupled = name.lower() == _ADAMW or given["optimizer.params.adam_w_mode"]
    beta1, beta2 = _betas(given["optimizer.params.betas"])
    weight_decay = given["optimizer.params.weight_decay"]
    if "optimizer.params.weight_decay" not in given and given["optimizer.params.torch_adam"]:
        weight_decay = _TORCH_WEIGHT_DECAY if decoupled else 0.0
    return {
        "learning_rate": float(given["optimizer.params.lr"]),
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": float(given["optimizer.params.eps"]),
        "weight_decay": float(weight_decay),
        "decoupled_weight_decay": decoupled,
    }


def _betas(value: Any) -> tuple[float, float]:
    numbers = value if isinstance(value, list | tuple) else ()
    right = [one for one in numbers if isinstance(one, int | float) and not isinstance(one, bool)]
    if len(numbers) != 2 or len(right) != 2 or not all(0 <= one < 1 for one in right):
        raise ConfigError(
            f"optimizer.params.betas is {shown(value)}: expected two numbers, 0 or more and below 1"
        )
    return float(right[0]), float(right[1])


def _schedule(given: Given) -> Schedule | None:
    if "scheduler.type" not in given:
        if any(line.path.startswith("scheduler") for line in given.lines):
            raise ConfigError("scheduler has no type: expected WarmupLR or another")
        return None
    return make_schedule(given["scheduler.type"], given.values.get("scheduler.params") or {})


def _defaults(given: Given) -> tuple[tuple[str, str], ...]:
    wanted = [path for path in _WORTH_SAYING if path not in given]
    if given[f"{ZERO}.stage"] != 3:
        wanted = [path for path in wanted if "stage3" not in path]
    overlaps = f"{ZERO}.overlap_comm"
    found = [(path, shown(KEYS[path].default)) for path in wanted]
    if overlaps not in given:
        found.append((overlaps, shown(_overlaps(given))))
    return tuple(found)
