"""Ranks of a simulated run without a file, represented by the file of another rank."""

from __future__ import annotations

from zerosim.schema.manifest import Manifest


def alike_ranks(manifest: Manifest) -> set[int]:
    """The represented ranks."""
    return {rank for one in manifest.alike for rank in range(one.first, one.last + 1)}


def num_alike(manifest: Manifest) -> int:
    """The number of represented ranks."""
    return sum(one.last - one.first + 1 for one in manifest.alike)
