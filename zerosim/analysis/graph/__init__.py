"""The event graph: one directed graph over all ranks, built and checked in linear time.

Modules:

    kinds       kinds of nodes and edges, and words for an edge's reason
    table       the events of all ranks as arrays
    hops        matching of sends and receives, and of receives with the sends that forward them
    clocks      alignment of the clocks of several hosts
    lanes       the activities of one rank's main thread, in order
    lifetimes   data flow of tensors between events
    collectives the calls and the matched collectives as arrays
    build       builds the graph from these
    model       `EventGraph`: arrays inside, a `networkx` interface
    order       a topological order, or a cycle
    check       the invariants of a successful run
"""

from zerosim.analysis.graph.build import build_graph
from zerosim.analysis.graph.check import Check, Violation, ViolationKind, check_graph
from zerosim.analysis.graph.clocks import Clocks, HostClock
from zerosim.analysis.graph.kinds import EdgeKind, NodeKind, Reason
from zerosim.analysis.graph.model import EventGraph

__all__ = [
    "Check",
    "Clocks",
    "EdgeKind",
    "EventGraph",
    "HostClock",
    "NodeKind",
    "Reason",
    "Violation",
    "ViolationKind",
    "build_graph",
    "check_graph",
]
