"""The tiers in which bytes are kept, and the links over which they move.

A rank keeps bytes in three tiers: on its device, in the memory of its host, on a disk. Bytes move
between the tiers of one rank over its bus and to its disk, and between ranks within a node or
across nodes.

Source of the tiers: Rajbhandari et al., "ZeRO-Infinity" (arXiv 2104.07857), section 3.
"""

from __future__ import annotations

from enum import StrEnum

from zerosim.base.language import term


class Tier(StrEnum):
    """A tier, in which bytes are kept."""

    DEVICE = "device"
    """The GPU's memory; without a GPU, the part of the host's memory that takes its place."""
    HOST = "host"
    DISK = "disk"

    @property
    def place(self) -> str:
        """The tier in a sentence: "on the device"."""
        return term(f"on the {self}")


class Link(StrEnum):
    """The kind of link over which bytes move."""

    BUS = "bus"
    """Between device and host of one rank."""
    STORAGE = "storage"
    """Between host and disk of one rank."""
    NODE = "within a node"
    """Between two ranks of one node."""
    NETWORK = "between nodes"
    """Between two ranks of different nodes."""


def link_of_copy(origin: Tier, target: Tier) -> Link:
    """The link that a copy between two tiers of a rank takes."""
    return Link.STORAGE if Tier.DISK in (origin, target) else Link.BUS


def link_of_message(source: int, target: int, ranks_per_node: int) -> Link:
    """The link that a message between two ranks takes.

    Args:
        source, target: global ranks; nodes are filled one after another.
        ranks_per_node: 1 or more.
    """
    same = source // ranks_per_node == target // ranks_per_node
    return Link.NODE if same else Link.NETWORK
