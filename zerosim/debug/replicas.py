"""Tensors that must be equal on all ranks, compared by checksum.

A unit that each rank keeps whole is a replica; a shard is not. An engine's manifest or a program's
strategies show which it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerosim.base.errors import TraceError
from zerosim.record import load, read_manifest
from zerosim.schema.memory import MODEL_STATES, Role
from zerosim.systems.registry import find

_COMPARED = tuple(role for role in (*MODEL_STATES, Role.GATHERED) if role is not Role.GRADIENTS)
"""Gradients are each rank's own until they are reduced."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One replica: tensors that all ranks have whole.

    Attributes:
        checksums: by rank.
    """

    role: Role
    unit: str
    checksums: Mapping[int, str]

    @property
    def differ(self) -> tuple[int, ...]:
        """Ranks that differ from the majority."""
        values = list(self.checksums.values())
        usual = max(values, key=values.count)
        return tuple(rank for rank, value in self.checksums.items() if value != usual)


def compare(folder: Path, answers: Mapping[int, Mapping[str, Any]]) -> list[Compared]:
    """The ranks' tensors that must be equal, with their checksums.

    Args:
        answers: the answers of all ranks to `tensors`.
    """
    sizes = _whole(folder)
    found: dict[tuple[Role, str], dict[int, str]] = defaultdict(dict)
    for rank, answer in answers.items():
        for row in answer["tensors"]:
            role, unit = Role(row["role"]), row["unit"]
            is_whole = sizes is not None and row["elements"] >= sizes.get(unit, 0)
            if role in _COMPARED and is_whole:
                found[role, unit][rank] = row["checksum"]
    return [
        Compared(role, unit, checksums)
        for (role, unit), checksums in sorted(found.items())
        if len(checksums) == len(answers) > 1
    ]


def _whole(folder: Path) -> dict[str, int] | None:
    """By unit, the number of elements of a whole one; None if none is known to be whole."""
    units = read_manifest(folder).units
    if units:
        return {unit.name: unit.elements for unit in units}
    try:
        ranks = load(folder).ranks
    except TraceError:
        return None
    found = {one.system for rank in ranks for one in rank.strategies}
    keep_all = [name for name in found if (one := find(name)) and one.replicates >= {*MODEL_STATES}]
    return {} if len(keep_all) == len(found) > 0 else None


def said_of_replicas(differ: Sequence[Compared]) -> str:
    """The first replica that differs, in one line."""
    one = differ[0]
    ranks, what = ", ".join(map(str, one.differ)), one.unit or "the model"
    more = f", and {len(differ) - 1} more" if len(differ) > 1 else ""
    return f"{one.role} of {what} on rank {ranks} differ from the other ranks'{more}"
