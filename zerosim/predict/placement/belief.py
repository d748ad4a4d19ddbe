"""The measured efficiency of software on a machine: a named software generation, with its record.

A data sheet has a machine's peak, and a step of real software is slower. There is one file per
generation in `software/`: the fraction of the peak reached in published runs, each constant with
the data that it was fitted to. Its errors on runs that it was not fitted to are its record
(`tests.bench.published` computes it, and a test compares the files with the result).
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

from zerosim.base.errors import ConfigError
from zerosim.predict.placement.machine import Machine

_FOLDER = "software"


class SoftwareSystem(StrEnum):
    """The kind of software that divides training in this way."""

    SHARDED = "sharded"
    """Data parallel ranks that divide states among them: FSDP, ZeRO, DDP."""
    TENSOR = "tensor"
    """Tensor- and pipeline-parallel ranks with stationary parameters: Megatron."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The errors of predictions with a software's constants.

    Attributes:
        runs: published runs that it was not fitted to.
        median, most: errors relative to the published values.
    """

    runs: int
    median: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredDivision:
    """A way to divide ranks in published runs of a software.

    Attributes:
        tensor: number of ranks that compute a block together.
        pipeline, data: whether there are stages of a pipeline, and several data parallel ranks.
        stage: the ZeRO stage; an earlier one sends no more.
        again: the kinds of recomputation in these runs, besides none.
    """

    tensor: int
    pipeline: bool
    data: bool
    stage: int
    again: tuple[str, ...]

    def covers(self, other: MeasuredDivision) -> bool:
        """Whether a layout has this division, and recomputes nothing beyond `again`."""
        mine, its = ((each.tensor, each.pipeline, each.data) for each in (self, other))
        return mine == its and other.stage <= self.stage and set(other.again) <= set(self.again)


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """A generation of software.

    Attributes:
        gpus: accelerators whose plans use it; empty for a generation of historical interest only.
        systems: the kinds of layouts that it covers.
        constants: constants of `Machine`, by name.
        record: None if it was fitted to all of its published runs.
        measured: how its published runs divide ranks.
    """

    name: str
    title: str
    gpus: tuple[str, ...]
    systems: tuple[SoftwareSystem, ...]
    constants: tuple[tuple[str, float], ...]
    record: Record | None
    measured: tuple[MeasuredDivision, ...] = ()


def known_software() -> tuple[str, ...]:
    """Names of all generations that come with zerosim."""
    names = (one.name for one in files(__package__).joinpath(_FOLDER).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def load_software(name: str) -> Software:
    """A generation of software by name.

    Raises:
        ConfigError: there is none.
    """
    if name not in known_software():
        known = ", ".join(known_software())
        raise ConfigError(f"there is no software {name!r}: expected one of {known}")
    text = files(__package__).joinpath(_FOLDER, f"{name}.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    record, measured = values.pop("record", None), values.pop("measured", ())
    return Software(
        name=name,
        title=values.pop("title"),
        gpus=tuple(values.pop("gpus", ())),
        systems=tuple(map(SoftwareSystem, values.pop("systems", ()))),
        constants=tuple((key, float(value["value"])) for key, value in values.items()),
        record=None if record is None else Record(**record),
        measured=tuple(
            MeasuredDivision(**{**one, "again": tuple(one["again"])}) for one in measured
        ),
    )


@cache
def largest_miss() -> float:
    """The largest error of a prediction among all runs on record."""
    records = (load_software(name).record for name in known_software())
    return max(record.most for record in records if record is not None)


def usual_software(machine: Machine, system: SoftwareSystem) -> Software | None:
    """The software constants for plans on a machine; None if nothing was measured on such GPUs.

    A machine that already has constants, of a named software or of your own runs, keeps them.
    """
    if machine.software or machine.fitted:
        return None
    gpu = machine.accelerator or machine.name
    for name in known_software():
        found = load_software(name)
        if gpu in found.gpus and system in found.systems:
            return found
    return None


def believed(machine: Machine, software: Software) -> Machine:
    """A machine with the efficiency that a software reaches on it."""
    constants: dict[str, Any] = dict(software.constants)
    return replace(machine, software=software.name, **constants)
