"""The exported graph is read back by networkx as it was written."""

from __future__ import annotations

import json
import resource

import networkx as nx
import pytest

from tests.analysis.graph.plans import load_plan
from tests.analysis.graph.runs import Plan
from zerosim.analysis.graph import build_graph
from zerosim.base.errors import EnvironmentFault
from zerosim.view.export.files import write
from zerosim.view.export.graphs import write_graphml, write_nodelink


@pytest.fixture(scope="module")
def face():
    return build_graph(load_plan(Plan(num_ranks=3))).within(1).to_networkx()


def test_graphml(face, tmp_path):
    write_graphml(face, tmp_path / "graph.graphml")
    read = nx.read_graphml(tmp_path / "graph.graphml", node_type=int)
    assert nx.is_directed_acyclic_graph(read)
    assert dict(read.nodes(data=True)) == dict(face.nodes(data=True))
    assert {(a, b): data for a, b, data in read.edges(data=True)} == {
        (a, b): data for a, b, data in face.edges(data=True)
    }


def test_nodelink(face, tmp_path):
    write_nodelink(face, tmp_path / "graph.json")
    plain = json.loads((tmp_path / "graph.json").read_text())
    read = nx.node_link_graph(plain, edges="edges")
    assert nx.utils.graphs_equal(read, face)
    assert plain["directed"] is True
    kinds = {node["kind"] for node in plain["nodes"]}
    assert kinds == {"phase", "compute", "wait", "call", "collective", "send", "receive"}


@pytest.mark.parametrize("write", [write_graphml, write_nodelink])
def test_a_file_that_is_there_is_replaced_and_one_that_cannot_be_written_is_named(
    face, tmp_path, write
):
    target = tmp_path / "graph"
    target.write_text("old")
    write(face, target)
    assert "block" in target.read_text()
    for path in (tmp_path / "no" / "graph", tmp_path):
        with pytest.raises(EnvironmentFault, match="cannot write"):
            write(face, path)


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path):
    page = tmp_path / "page.html"
    page.write_bytes(b"old")
    page.chmod(0o640)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        for path in (page, tmp_path / "new.html"):
            with pytest.raises(EnvironmentFault, match=f"cannot write {path}: File too large"):
                write(path, b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert page.read_bytes() == b"old"
    link = tmp_path / "link.html"
    link.symlink_to(page)
    write(link, b"new")
    assert (link.is_symlink(), page.read_bytes()) == (True, b"new")
    assert page.stat().st_mode & 0o777 == 0o640
