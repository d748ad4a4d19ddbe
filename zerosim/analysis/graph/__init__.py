"""The event graph: one directed graph over all ranks, built and checked in linear time.

kinds       what a node and an edge can be, and the words for an edge's reason
table       the events of all ranks as arrays
hops        which message is received as which, and which one it is passed on as
clocks      clocks of several hosts brought to one
lanes       what one rank's main thread did, piece after piece
lifetimes   which tensor goes from whom to whom
collectives the calls and the matched collectives as arrays
build       all of it together
model       `EventGraph`: arrays inside, `networkx` as the face
order       a topological order, or the cycle that forbids one
check       what must hold in a graph of a run that went well
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
