"""What the kernel sent for a rank. Imports zerosim's L0 and record."""

from __future__ import annotations

from collections.abc import Collection

from zerosim.errors import ConfigError
from zerosim.events import Phase
from zerosim.pytest_plugin.selection import WHOLE
from zerosim.record import Peers, RankTrace, phase_wire


def sent_bytes(rank: RankTrace, peers: Peers, iteration: int, phases: Collection[Phase]) -> int:
    """All that the kernel sent to other ranks in some phases of an iteration.

    Raises:
        ConfigError: that was not measured.
    """
    if rank.header.device != "cpu" or len(rank.wire_samples) < 2:
        raise ConfigError(
            f"the wire of rank {rank.rank} was not measured: expected connections over TCP on "
            f"Linux; ledger='trace' counts what was asked for"
        )
    pieces = [
        piece
        for piece in phase_wire(rank, peers)
        if iteration in (piece.iteration, WHOLE) and piece.phase in phases
    ]
    if any(piece.lost_sockets for piece in pieces):
        raise ConfigError(
            f"rank {rank.rank} closed its connections before they were read: expected the assert "
            f"before destroy_process_group; ledger='trace' counts what was asked for"
        )
    return sum(moved.sent_bytes for piece in pieces for moved in piece.peers.values())
