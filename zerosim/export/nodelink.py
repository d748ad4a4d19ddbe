"""The event graph as node-link JSON, which networkx and D3 read.

Imports networkx, zerosim's L0 and its siblings.
"""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx

from zerosim.export.files import write


def write_nodelink(graph: nx.DiGraph, path: Path) -> None:
    """Write an `EventGraph.to_networkx()`; `nx.node_link_graph(..., edges="edges")` reads it.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    plain = nx.node_link_data(graph, edges="edges")
    write(path, (json.dumps(plain, indent=1) + "\n").encode())
