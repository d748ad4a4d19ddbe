"""What a trace was made of: its units, its buckets, its configuration, as `manifest.json` says it.

Imports nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass, field


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
    """

    name: str
    elements: int
    padded_elements: int
    trainable: bool
    slots: tuple[Slot, ...] = ()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a trace was made of and where; `manifest.json` beside the ranks' files.

    Attributes:
        program: the command that made the trace.
        config: the engine's configuration as plain values; empty for a foreign program.
        run: model, steps, seed and the like, as plain values; empty for a foreign program.
        versions: zerosim, torch, python, kernel.
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
