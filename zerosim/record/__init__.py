"""A trace on disk, read back: load, validate, match across ranks.

A trace is a folder with `manifest.json` and one append-only `rank-N.jsonl` for each rank.

    schema    decodes a checked row into a record of `zerosim.schema.events`
    lines     the lines of one file, checked, up to its end or truncation
    eventrows the events of one rank, constructed from their rows on access
    rankfile  reads the rows of one file into a `RankTrace`
    raw       the same rows one by one, for people
    store     `load`: the folder as a `Trace`; writing: `write`, a `Trace` as a folder
    peers     the peer of each socket, and the bytes between two ranks
    nodes     the node of each rank
    merge     matches the calls of several ranks into collectives, and finds mismatches
    progress  the iterations that all ranks finished
    coverage  what a trace omits on purpose; `window`: the part of a light trace that all ranks kept
    postmortem  which rank failed in a run that ended early, and where the others were

Everything after `load` is a pure function of the trace.
"""

from zerosim.record.coverage import left_out, require_times, way_to_memory
from zerosim.record.eventrows import Events
from zerosim.record.merge import (
    CollectiveKey,
    MatchedCollective,
    Matching,
    Mismatch,
    MismatchKind,
    match_collectives,
)
from zerosim.record.nodes import link_between, node_of, num_nodes, ranks_per_node
from zerosim.record.peers import (
    PeerBytes,
    Peers,
    PhaseWire,
    match_sockets,
    phase_wire,
    wire_between,
    wire_by_peer,
)
from zerosim.record.postmortem import explain_failure
from zerosim.record.progress import (
    ended_early,
    iterations,
    still_in,
    why_early,
    without_update,
)
from zerosim.record.rankfile import RankTrace
from zerosim.record.raw import RawRow, raw_rows
from zerosim.record.store import Trace, load, rank_files, read_manifest
from zerosim.record.writing import write

__all__ = [
    "CollectiveKey",
    "Events",
    "MatchedCollective",
    "Matching",
    "Mismatch",
    "MismatchKind",
    "PeerBytes",
    "Peers",
    "PhaseWire",
    "RankTrace",
    "RawRow",
    "Trace",
    "ended_early",
    "explain_failure",
    "iterations",
    "left_out",
    "link_between",
    "load",
    "match_collectives",
    "match_sockets",
    "node_of",
    "num_nodes",
    "phase_wire",
    "rank_files",
    "ranks_per_node",
    "raw_rows",
    "read_manifest",
    "require_times",
    "still_in",
    "way_to_memory",
    "why_early",
    "wire_between",
    "wire_by_peer",
    "without_update",
    "write",
]
