"""The contents of `manifest.json`: units, buckets and configuration of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from zerosim.base.config import Light


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """The position of one parameter in its unit's flat buffer."""

    name: str
    shape: tuple[int, ...]
    offset: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLayout:
    """A unit in the manifest.

    Attributes:
        elements: number of parameters, without padding.
        padded_elements: the next multiple of the number of ranks.
        trainable: False for parameters that receive no gradient.
        module: the class of its module; "" in older traces.
    """

    name: str
    elements: int
    padded_elements: int
    trainable: bool
    slots: tuple[Slot, ...] = ()
    module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A piece of a unit inside a bucket: columns [start, stop) of each of its shards."""

    unit: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLayout:
    """A bucket: the elements reduced by one collective."""

    name: str
    segments: tuple[Segment, ...]


class Source(StrEnum):
    """The origin of a run."""

    EXECUTED = "executed"
    """A real run of zerosim's own engine."""
    TRACED = "traced"
    """A real run of another program."""
    SIMULATED = "simulated"
    """A dry run: order, bytes and memory are the program's own; times are predicted."""
    PREDICTED = "predicted"
    """Computed from another run: its times under changed conditions."""
    IMPORTED = "imported"
    """A program recorded by another tool: data that the tool omits is missing here."""


EACH = 8
"""Up to this number of simulated ranks, each rank has its own dry run and file, as in a real run;
above it, one rank may represent others.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Ranks of a simulated run that acted like another rank and therefore have no file.

    Attributes:
        rank: the rank with a file.
        first, last: the range of the other ranks, inclusive.
    """

    rank: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The description of a traced run; `manifest.json` beside the files of the ranks.

    Attributes:
        program: the command of the traced run.
        config: the engine's configuration as plain values; empty for a foreign program.
        run: model, steps, seed and the like, as plain values; empty for a foreign program.
        versions: zerosim, torch, python, kernel.
        light: the recorded iterations of a light trace; None for a full trace.
        source: the origin of the run; None for a real run, which the configuration describes.
        machine: for a simulated run, the machine for which times are predicted.
        alike: for a simulated run, the ranks that the file of one rank represents.
        notes: for an imported run, the information that its files lack, one sentence each.
        is_timed: False for an imported run in which times only give the order of events.
    """

    schema: int
    created: str
    program: str
    num_ranks: int
    backend: str
    device: str
    versions: dict[str, str] = field(default_factory=dict)
    config: dict[str, object] = field(default_factory=dict)
    run: dict[str, object] = field(default_factory=dict)
    units: tuple[UnitLayout, ...] = ()
    buckets: tuple[BucketLayout, ...] = ()
    light: Light | None = None
    source: Source | None = None
    machine: str = ""
    alike: tuple[Alike, ...] = ()
    notes: tuple[str, ...] = ()
    is_timed: bool = True

    @property
    def is_predicted(self) -> bool:
        """Whether all times are predicted, because the run was never executed."""
        return self.source in (Source.SIMULATED, Source.PREDICTED)
