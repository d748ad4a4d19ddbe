"""The event graph as GraphML, which Gephi, yEd and Cytoscape read.

Imports networkx, zerosim's L0 and its siblings.
"""

from __future__ import annotations

import io
from pathlib import Path

import networkx as nx

from zerosim.export.files import write


def write_graphml(graph: nx.DiGraph, path: Path) -> None:
    """Write an `EventGraph.to_networkx()`, with all that is known of its nodes and edges.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    text = io.BytesIO()
    nx.write_graphml_xml(graph, text, prettyprint=True)
    write(path, text.getvalue())
