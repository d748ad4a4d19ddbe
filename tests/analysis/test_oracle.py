"""networkx, asked the same: order, cycles, the critical path and slack of graphs of every kind."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.graph.plans import load_plan, plans
from zerosim.analysis import critical_path, slack
from zerosim.analysis.graph import EventGraph, build_graph
from zerosim.analysis.graph.order import find_cycle, positions


@given(plan=plans(), data=st.data())
def test_there_is_an_order_where_networkx_finds_one_and_a_cycle_where_it_finds_none(plan, data):
    graph = build_graph(load_plan(plan))
    edges = st.integers(0, max(0, graph.num_edges - 1))
    turned = np.zeros(graph.num_edges, np.bool_)
    if graph.num_edges:
        turned[data.draw(st.lists(edges, max_size=3))] = True
    changed = replace(
        graph,
        source=np.where(turned, graph.target, graph.source),
        target=np.where(turned, graph.source, graph.target),
    )
    oracle = changed.to_networkx()
    order, circle = positions(changed), find_cycle(changed)
    assert (order is not None) == nx.is_directed_acyclic_graph(oracle) == (not circle)
    if order is not None:
        assert all(order[source] < order[target] for source, target in oracle.edges)
    else:
        assert nx.is_simple_path(oracle, circle)
        assert oracle.has_edge(circle[-1], circle[0])


@given(plan=plans())
def test_slack_is_the_shortest_way_to_the_end_that_networkx_finds(plan):
    graph = build_graph(load_plan(plan))
    oracle = _spare_times(graph)
    ways = nx.single_source_dijkstra_path_length(oracle.reverse(), "end", weight="spare")
    assert slack(graph).tolist() == [ways[node] for node in range(graph.num_nodes)]


@given(plan=plans())
def test_the_critical_path_goes_along_edges_that_have_no_time_to_spare(plan):
    graph = build_graph(load_plan(plan))
    nodes = critical_path(graph).nodes
    oracle = _spare_times(graph)
    assert nx.path_weight(oracle, nodes, "spare") == 0
    assert oracle.nodes[nodes[-1]]["end_ns"] == graph.end.max()
    assert not oracle.in_degree(nodes[0])


def _spare_times(graph: EventGraph) -> nx.DiGraph:
    """By edge, ns that what it brings was there before its target needed it; where nothing follows
    a node, ns from its end to the end of the run.
    """
    oracle = graph.to_networkx()
    needed = {
        node: max((ready for _, _, ready in oracle.in_edges(node, data="ready_ns")), default=0)
        for node in oracle
    }
    for _, target, edge in oracle.edges(data=True):
        edge["spare"] = needed[target] - edge["ready_ns"]
    finish = max(end for _, end in oracle.nodes(data="end_ns"))
    leaves = [node for node in oracle if not oracle.out_degree(node)]
    for node in leaves:
        oracle.add_edge(node, "end", spare=finish - oracle.nodes[node]["end_ns"])
    return oracle
