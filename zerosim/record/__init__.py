"""A trace on disk, read back: load, validate, match across ranks.

A trace is a folder with `manifest.json` and one append-only `rank-N.jsonl` for each rank.

    schema    a checked row becomes the record of `zerosim.schema.events` that it holds
    lines     the lines of one file, checked, up to where it ends or was cut
    eventrows the events of one rank, made of their rows when somebody looks at them
    rankfile  the rows of one file become one `RankTrace`
    raw       the same rows one by one, for people
    store     `load`: the folder as a `Trace`; writing: `write`, a `Trace` as a folder
    peers     whose socket is whose, and what crossed between two ranks
    nodes     on which node each rank was
    merge     which calls on several ranks are one collective, and where they contradict
    progress  which iterations all ranks finished
    coverage  what a trace leaves out on purpose; `window` is what all ranks kept of a light one
    postmortem  who failed in a run that ended early, and where the others were

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
