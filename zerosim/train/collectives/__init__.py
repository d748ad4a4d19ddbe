"""Collective operations: one protocol, our rings, and the backend's own calls.

For ZeRO++ there are also groups of ranks in nodes (`nodes`), our own all-to-all (`pairwise`), and
blocks of int8 and int4 (`quantization`). `faulty` is for a rank with an injected fault.

It contains no theory: the traffic of a ring is verified, not assumed.
"""

from zerosim.base.config import CollectivesKind
from zerosim.trace.faulty import installed
from zerosim.train.collectives.executor import (
    BackgroundExecutor,
    Executor,
    InlineExecutor,
    in_background,
)
from zerosim.train.collectives.faulty import Faulty
from zerosim.train.collectives.group import RankGroup, world
from zerosim.train.collectives.native import Native
from zerosim.train.collectives.protocol import Collectives, Handle
from zerosim.train.collectives.ring import Ring

__all__ = [
    "BackgroundExecutor",
    "Collectives",
    "Executor",
    "Handle",
    "InlineExecutor",
    "Native",
    "RankGroup",
    "Ring",
    "in_background",
    "make_collectives",
    "world",
]


def make_collectives(
    kind: CollectivesKind, group: RankGroup, executor: Executor, chunk_bytes: int
) -> Collectives:
    """The collectives that a configuration names.

    Args:
        chunk_bytes: see `Ring`; native calls split their messages themselves.
    """
    if kind is CollectivesKind.RING:
        made: Collectives = Ring(group, executor, chunk_bytes)
    else:
        made = Native(group, executor)
    faults = installed()
    return made if faults is None or group.size == 1 else Faulty(made, faults)
