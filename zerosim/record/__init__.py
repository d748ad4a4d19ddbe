"""A trace on disk, read back: load, validate, match across ranks.

A trace is a folder with `manifest.json` and one append-only `rank-N.jsonl` for each rank.

    schema    a checked row becomes the record of `zerosim.events` that it holds
    rankfile  the rows of one file become one `RankTrace`
    store     `load`: the folder as a `Trace`
    peers     whose socket is whose, and what crossed between two ranks
    nodes     on which node each rank was
    merge     which calls on several ranks are one collective, and where they contradict
    progress  which iterations all ranks finished
    postmortem  who failed in a run that ended early, and where the others were

Everything after `load` is a pure function of the trace. Imports the standard library, msgspec and
`zerosim.errors`, `zerosim.events`, `zerosim.rows`; never torch: a trace is read anywhere.
"""

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
from zerosim.record.progress import ended_early, iterations, why_early, without_update
from zerosim.record.rankfile import RankTrace
from zerosim.record.store import Trace, load

__all__ = [
    "CollectiveKey",
    "MatchedCollective",
    "Matching",
    "Mismatch",
    "MismatchKind",
    "PeerBytes",
    "Peers",
    "PhaseWire",
    "RankTrace",
    "Trace",
    "ended_early",
    "explain_failure",
    "iterations",
    "link_between",
    "load",
    "match_collectives",
    "match_sockets",
    "node_of",
    "num_nodes",
    "phase_wire",
    "ranks_per_node",
    "why_early",
    "wire_between",
    "wire_by_peer",
    "without_update",
]
