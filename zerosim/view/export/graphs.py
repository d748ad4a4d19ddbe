"""The event graph as a file: GraphML for Gephi, yEd and Cytoscape, node-link JSON for D3."""

from __future__ import annotations

import io
import json
from pathlib import Path

import networkx as nx

from zerosim.analysis import critical_path, slack
from zerosim.analysis.graph import EventGraph
from zerosim.analysis.graph.order import positions
from zerosim.view.export.files import write


def annotated(graph: EventGraph) -> nx.DiGraph:
    """The graph with all attributes; nodes also have slack_ns and on_path.

    These two are left out if events wait for each other in a cycle.
    """
    face = graph.to_networkx()
    if positions(graph) is not None:
        on_path = set(critical_path(graph).nodes)
        for node, spare in enumerate(slack(graph).tolist()):
            face.nodes[node]["slack_ns"] = spare
            face.nodes[node]["on_path"] = node in on_path
    return face


def graphml_file(graph: nx.DiGraph) -> bytes:
    """An `EventGraph.to_networkx()` as GraphML, with all attributes of its nodes and edges."""
    text = io.BytesIO()
    nx.write_graphml_xml(graph, text, prettyprint=True)
    return text.getvalue()


def write_graphml(graph: nx.DiGraph, path: Path) -> None:
    """Write the graph as GraphML.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    write(path, graphml_file(graph))


def write_nodelink(graph: nx.DiGraph, path: Path) -> None:
    """Write an `EventGraph.to_networkx()`; `nx.node_link_graph(..., edges="edges")` reads it.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    plain = nx.node_link_data(graph, edges="edges")
    write(path, (json.dumps(plain, indent=1) + "\n").encode())
