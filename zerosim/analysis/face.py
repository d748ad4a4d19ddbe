"""The event graph as `networkx` has it, with what the analysis found at each node.

Imports networkx, zerosim's graph and its siblings.
"""

from __future__ import annotations

import networkx as nx

from zerosim.analysis.path import critical_path, slack
from zerosim.graph import EventGraph
from zerosim.graph.order import positions


def annotated(graph: EventGraph) -> nx.DiGraph:
    """Everything written out; nodes also carry slack_ns and on_path.

    Without these two where events wait for each other in a cycle.
    """
    face = graph.to_networkx()
    if positions(graph) is not None:
        on_path = set(critical_path(graph).nodes)
        for node, spare in enumerate(slack(graph).tolist()):
            face.nodes[node]["slack_ns"] = spare
            face.nodes[node]["on_path"] = node in on_path
    return face
