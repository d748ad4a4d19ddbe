"""What a trace was made of: its units, its buckets, its configuration, as in `manifest.json`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from zerosim.base.config import Light


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one parameter lives inside its unit's flat buffer."""

    name: str
    shape: tuple[int, ...]
    offset: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitLayout:
    """A unit as the manifest describes it.

    Attributes:
        elements: number of parameters, without padding.
        padded_elements: the next multiple of the number of ranks.
        trainable: False for parameters that receive no gradient.
        module: the class of the module that it is of; "" in older traces.
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
    """What is reduced in one collective."""

    name: str
    segments: tuple[Segment, ...]


class Source(StrEnum):
    """Who made a run."""

    EXECUTED = "executed"
    """zerosim's own engine, for real."""
    TRACED = "traced"
    """A program of somebody else, for real."""
    SIMULATED = "simulated"
    """A dry run: order, bytes and memory are the program's own; times are predicted."""
    PREDICTED = "predicted"
    """Nobody: a run at the times that it would have if something were different."""
    IMPORTED = "imported"
    """A program that another recorder than zerosim's wrote down: what it did not say is not
    recorded."""


EACH = 8
"""So many simulated ranks each do their own dry run and have a file, as in a run for real; of more,
one may stand for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """Ranks of a simulated run that did what another one did, so that they have no file.

    Attributes:
        rank: the one with a file.
        first, last: the others, with all between them.
    """

    rank: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a trace was made of and where; `manifest.json` beside the ranks' files.

    Attributes:
        program: the command that made the trace.
        config: the engine's configuration as plain values; empty for a foreign program.
        run: model, steps, seed and the like, as plain values; empty for a foreign program.
        versions: zerosim, torch, python, kernel.
        light: which iterations were recorded, of a light trace; None if all were, with all else.
        source: who made it; None of a run for real, of which the configuration says the rest.
        machine: of a simulated run, the name of the machine that its times are predicted for.
        alike: of a simulated run, which ranks' files stand for others.
        notes: of an imported run, what its files did not say, a sentence each.
        is_timed: False of an imported run whose times only say in which order things happened.
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
        """It was run at no time: all its times are predicted."""
        return self.source in (Source.SIMULATED, Source.PREDICTED)
