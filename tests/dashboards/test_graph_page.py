"""The Graph page and its document as the server answers them."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from tests.dashboards.samples import HOSTILE, plain
from zerosim.dashboards.pages import graph
from zerosim.record import load
from zerosim.view.export import player
from zerosim.view.replay import graph_document


def test_the_document_is_that_of_zerosim_replay(client, standing):
    trace = load(standing[1] / "stage-3")
    for query, iteration in (("", None), ("&iteration=0", 0)):
        answer = client.get(f"/api/graph?trace=stage-3{query}")
        assert (answer.status_code, answer.mimetype) == (200, "application/json")
        expected = graph_document(trace, iteration, "stage-3")
        assert plain(answer) == json.loads(json.dumps(expected))
    again = client.get(
        "/api/graph?trace=stage-3", headers={"If-None-Match": answer.headers["ETag"]}
    )
    assert again.status_code in (200, 304)


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("?trace=none", 404, "there is no trace 'none'"),
        ("?trace=../stage-3", 404, "there is no trace"),
        ("?trace=stage-3&iteration=99", 422, "iteration 99 is not in"),
        ("?trace=stage-3&iteration=x", 422, "iteration is 'x': expected a whole number"),
    ],
)
def test_what_cannot_be_answered_is_one_line(client, query, status, words):
    answer = client.get(f"/api/graph{query}")
    assert (answer.status_code, answer.mimetype) == (status, "application/json")
    assert answer.json.keys() == {"error"}
    assert words in answer.json["error"]
    assert len(answer.json["error"].splitlines()) == 1


def test_the_page_names_all_of_its_modules_and_nothing_elsewhere(client):
    answer = client.get("/graph?trace=stage-3&iteration=1")
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    modules = re.findall(r'rel="modulepreload" href="([^"]+)"', answer.text)
    assert tuple(map(player.name_at, modules)) == player.modules(graph.MAIN)
    assert f"{player.address()}graph/view.js" in modules
    for module in modules:
        assert client.get(module).status_code == 200
    assert 'as="fetch" crossorigin="anonymous" href="/api/graph?trace=stage-3&amp;iteration=1"' in (
        answer.text
    )
    for found in re.findall(r'\s(?:src|href)="([^"]*)"', answer.text):
        assert found.startswith(("/", "#")), found
        assert not found.startswith("//"), found


def test_its_tab_is_on_every_page_and_leads_to_the_same_trace(client):
    for path in ("/verify", "/replay", "/graph"):
        html = client.get(f"{path}?trace=stage-0").text
        assert re.search(r'href="/graph\?trace=stage-0"[^>]*>Graph</a>', html)
    assert re.search(r'href="/graph\?trace=stage-0" aria-current="page"', html)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x>', *HOSTILE])
def test_hostile_names_are_text(client, name):
    html = client.get("/graph", query_string={"trace": name}).text
    for tag in ("<script>alert", "<img", "<b>bold"):
        assert tag not in html
    assert "<title>Graph · zerosim</title>" in unescape(html)
