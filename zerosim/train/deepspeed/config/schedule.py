"""DeepSpeed's learning rate schedules: its formulas, to the bit, and the names of its parameters.

`step` counts optimizer steps from 0; -1 is before the first, where DeepSpeed also sets a rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, Protocol

from zerosim.base.errors import ConfigError
from zerosim.train.deepspeed.config.keys import Key, KeyKind, Treatment, shown

_LOG, _LINEAR = "log", "linear"


class Schedule(Protocol):
    """A learning rate for each optimizer step."""

    def rate(self, step: int, base: float) -> float:
        """The learning rate after a number of steps.

        Args:
            step: the last step done; -1 before the first.
            base: the optimizer's learning rate when the schedule began.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupLR:
    """From warmup_min_lr to warmup_max_lr, then constant."""

    warmup_min_lr: float = 0.0
    warmup_max_lr: float | None = None
    warmup_num_steps: int = 1000
    warmup_type: str = _LOG

    def rate(self, step: int, base: float) -> float:
        """See `Schedule`. Without warmup_max_lr it warms up to `base`."""
        high = base if self.warmup_max_lr is None else self.warmup_max_lr
        if step < 0:
            return self.warmup_min_lr
        return self.warmup_min_lr + (high - self.warmup_min_lr) * self._part(step)

    def _part(self, step: int) -> float:
        return _warm(step, self.warmup_num_steps, self.warmup_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupDecayLR:
    """From warmup_min_lr to warmup_max_lr, then linearly to 0 at total_num_steps."""

    total_num_steps: int
    warmup_min_lr: float = 0.0
    warmup_max_lr: float = 0.001
    warmup_num_steps: int = 1000
    warmup_type: str = _LOG

    def rate(self, step: int, base: float) -> float:  # noqa: ARG002 - its own rates
        """See `Schedule`."""
        if step < 0:
            return self.warmup_min_lr
        return self.warmup_min_lr + (self.warmup_max_lr - self.warmup_min_lr) * self._part(step)

    def _part(self, step: int) -> float:
        warm_steps = _warm_steps(self.warmup_num_steps)
        if step < warm_steps:
            return _warm(step, self.warmup_num_steps, self.warmup_type)
        left = float(self.total_num_steps - step)
        return max(0.0, left / float(max(1.0, self.total_num_steps - warm_steps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupCosineLR:
    """From warmup_min_ratio to the optimizer's full rate, then along a cosine."""

    total_num_steps: int
    warmup_min_ratio: float = 0.0
    warmup_num_steps: int = 1000
    cos_min_ratio: float = 0.0001
    warmup_type: str = _LOG

    def rate(self, step: int, base: float) -> float:
        """See `Schedule`."""
        return 0.0 if step < 0 else base * self._ratio(step)

    def _ratio(self, step: int) -> float:
        warm_steps = _warm_steps(self.warmup_num_steps)
        if step < warm_steps:
            part = _warm(step, self.warmup_num_steps, self.warmup_type)
            return self.warmup_min_ratio + part * (1.0 - self.warmup_min_ratio)
        progress = (step - warm_steps + 1) / max(1, self.total_num_steps - warm_steps)
        part = (1 + math.cos(math.pi * min(1.0, progress))) / 2
        return max(0.0, self.cos_min_ratio + (1.0 - self.cos_min_ratio) * part)


@dataclass(frozen=True, slots=True, kw_only=True)
class LRRangeTest:
    """From lr_range_test_min_lr upwards, for finding the largest rate that trains."""

    lr_range_test_min_lr: float = 1e-3
    lr_range_test_step_size: int = 2000
    lr_range_test_step_rate: float = 1.0
    lr_range_test_staircase: bool = False

    def rate(self, step: int, base: float) -> float:  # noqa: ARG002 - its own rates
        """See `Schedule`."""
        if step < 0:
            return self.lr_range_test_min_lr
        interval = float(step + 1) / self.lr_range_test_step_size
        if self.lr_range_test_staircase:
            interval = math.floor(interval)
        return self.lr_range_test_min_lr * (1 + self.lr_range_test_step_rate * interval)


SCHEDULES: dict[str, type[Schedule]] = {
    kind.__name__: kind for kind in (WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest)
}
_KINDS = {"int": KeyKind.INTEGER, "float": KeyKind.NUMBER, "float | None": KeyKind.NUMBER}
_KINDS |= {"bool": KeyKind.FLAG, "str": KeyKind.TEXT}


def make_schedule(name: str, given: dict[str, Any]) -> Schedule:
    """The schedule of a `scheduler` section.

    Raises:
        ConfigError: an unknown schedule, or a parameter that is unknown, missing or invalid.
    """
    if name not in SCHEDULES:
        raise ConfigError(
            f"scheduler.type is {shown(name)}: refused: zerosim has {', '.join(SCHEDULES)}; give "
            "another to initialize() as lr_scheduler"
        )
    kind: Any = SCHEDULES[name]
    known = {field.name: field for field in fields(kind)}
    for parameter in given:
        if parameter not in known:
            raise ConfigError(
                f"unknown key {shown(parameter)} in scheduler.params: {name} has {', '.join(known)}"
            )
    if "total_num_steps" in known and given.get("total_num_steps") is None:
        raise ConfigError(f"scheduler.params has no total_num_steps: {name} needs it")
    values = {
        parameter: _key(parameter, str(field.type)).checked(given[parameter])
        for parameter, field in known.items()
        if given.get(parameter) is not None
    }
    schedule: Schedule = kind(**values)
    return schedule


def _key(parameter: str, type_words: str) -> Key:
    is_count = parameter in ("warmup_num_steps", "lr_range_test_step_size")
    return Key(
        f"scheduler.params.{parameter}",
        _KINDS[type_words],
        Treatment.HONOURED,
        "",
        least=1 if is_count else None,
        choices=(_LOG, _LINEAR) if parameter == "warmup_type" else (),
    )


def _warm_steps(given: int) -> int:
    return max(2, given)


def _warm(step: int, given_steps: int, shape: str) -> float:
    """The completed fraction of the warm-up, from 0 to 1."""
    steps = _warm_steps(given_steps)
    if step >= steps:
        return 1.0
    return 1.0 / math.log(steps) * math.log(step + 1) if shape == _LOG else step / steps
