"""What a trace becomes for other programs: one format a file.

    graphml   the event graph for Gephi, yEd, Cytoscape
    nodelink  the same as node-link JSON, for networkx and D3
    offline   a replay as one page, which needs no server
    player    the files that the page is made of

Imports zerosim's L0 and networkx; never torch.
"""

from zerosim.export.graphml import write_graphml
from zerosim.export.nodelink import write_nodelink

__all__ = ["write_graphml", "write_nodelink"]
