"""The contents of a replay document's ranks at a step, counted from its cells and its memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection
from fractions import Fraction

from zerosim.view.replay.moments import Document

_GATHERED = b"23"
_KEPT = b"167"
"""Codes of cells: gathered, arriving; kept, reduced, stale. See `CellCode` in types.d.ts."""


class RankCells:
    """The cells of all ranks, step after step."""

    def __init__(self, document: Document) -> None:
        """Initialize: before the first step."""
        self._document = document
        self._cells = bytearray(document["cells"].encode())
        self._next = 0

    def go_on(self, position: int) -> None:
        """Advance to the start of a step; steps must be requested in order."""
        for step in self._document["steps"][self._next : position + 1]:
            changes = step["cells"]
            for cell, code in zip(changes[::2], changes[1::2], strict=True):
                self._cells[cell] = ord("0") + code
        self._next = max(self._next, position + 1)

    def shares(self, state: int) -> list[Fraction]:
        """By rank, the fraction of a state that it keeps; 1 is all that any rank keeps."""
        document = self._document
        units = range(len(document["units"]))
        counts = [
            [self._count(rank, state, unit, _KEPT) for unit in units]
            for rank in range(len(document["ranks"]))
        ]
        whole = sum(
            self._shard(unit) * document["num_shards"]
            for unit in units
            if any(count[unit] for count in counts)
        )
        kept = [sum(self._shard(unit) * count[unit] for unit in units) for count in counts]
        return [Fraction(size, whole) if whole else Fraction(0) for size in kept]

    def kept_elements(self, state: int, rank: int) -> int:
        """Parameters whose state a rank keeps; a unit's padding counts."""
        units = range(len(self._document["units"]))
        return sum(self._shard(unit) * self._count(rank, state, unit, _KEPT) for unit in units)

    def kept_bytes(self, rank: int) -> dict[str, int]:
        """The persistent states of a rank, by tier."""
        found: Counter[str] = Counter()
        for state, said in enumerate(self._document["states"]):
            found[said["tier"]] += self.kept_elements(state, rank) * said["bytes_per_parameter"]
        return dict(+found)

    def gathered_bytes(self, rank: int, units: Collection[int]) -> int:
        """Other ranks' shards of some units that a rank has gathered or is receiving."""
        return sum(
            self._shard(unit)
            * said["bytes_per_parameter"]
            * self._count(rank, state, unit, _GATHERED)
            for state, said in enumerate(self._document["states"])
            if said["role"] == "parameters"
            for unit in units
        )

    def parameter_bytes(self, rank: int, units: Collection[int]) -> int:
        """The parameters of some units that a rank has on its device or is receiving."""
        return sum(
            self._shard(unit)
            * said["bytes_per_parameter"]
            * self._count(rank, state, unit, b"1" + _GATHERED)
            for state, said in enumerate(self._document["states"])
            if (said["role"], said["tier"]) == ("parameters", "device")
            for unit in units
        )

    def whole_bytes(self, units: Collection[int]) -> int:
        """All shards of some units' parameters."""
        each = [one["bytes_per_parameter"] for one in self._document["states"]]
        shards = self._document["num_shards"]
        return sum(self._shard(unit) * shards * each[0] for unit in units) if each else 0

    def _shard(self, unit: int) -> int:
        """Elements of one shard."""
        return int(self._document["units"][unit]["padded_elements"] // self._document["num_shards"])

    def _count(self, rank: int, state: int, unit: int, codes: bytes) -> int:
        """Shards that a rank has in one of these ways."""
        document = self._document
        units, shards = len(document["units"]), document["num_shards"]
        first = ((rank * len(document["states"]) + state) * units + unit) * shards
        return sum(code in codes for code in self._cells[first : first + shards])


def role_bytes(document: Document, role: str, rank: int, position: int) -> int:
    """Bytes of a role on a rank's device when the rank had reached a step; 0 if not recorded."""
    memory = document["memory"]
    own = None if memory is None else memory["ranks"][rank]
    if own is None:
        return 0
    sample = max(0, bisect_right(own["times_ns"], document["local_ns"][rank][position]) - 1)
    series = zip(memory["roles"], memory["tiers"], own["bytes"], strict=True)
    return sum(row[sample] for name, tier, row in series if (name, tier) == (role, "device"))
