"""What the server answers: pages, documents, files, and to whom."""

from __future__ import annotations

import gzip
import json
import re
from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from plotly.offline import get_plotlyjs_version

from tests.dashboards.samples import HOSTILE, make_site, plain, put_trace
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.guard import hosts_of, is_loopback
from zerosim.record import load
from zerosim.view.export import player
from zerosim.view.replay import replay_document

CALLBACK = "/dash/_dash-update-component"
OUTPUT = "..address.search.."
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def asked_of_dash(search="?trace=stage-3"):
    """What Dash asks when the reader's own numbers change."""
    return {
        "output": OUTPUT,
        "outputs": [{"id": "address", "property": "search"}],
        "inputs": [
            {"id": "own-psi", "property": "n_submit", "value": 1},
            {"id": "own-n", "property": "n_submit"},
        ],
        "state": [
            {"id": "own-psi", "property": "value", "value": "10"},
            {"id": "own-n", "property": "value", "value": "2"},
            {"id": "address", "property": "search", "value": search},
        ],
        "changedPropIds": ["own-psi.n_submit"],
    }


def callback(client, **options):
    """Ask as Dash does."""
    return client.post(CALLBACK, json=asked_of_dash(), **options)


def test_the_first_page_is_the_replay_of_stage_3(client):
    answer = client.get("/")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/replay?trace=stage-3"
    assert client.get(answer.headers["Location"]).status_code == 200


def test_the_list(site):
    answer = plain(site.client.get("/api/traces"))
    assert answer["default"] == "stage-3"
    assert [one["name"] for one in answer["traces"]] == ["stage-0", "stage-3"]
    assert answer["traces"][0] | {"modified_ns": 0} == {
        "name": "stage-0",
        "title": "gpt-tiny · data parallel · 2 ranks · bf16",
        "stage": 0,
        "complete": True,
        "modified_ns": 0,
        "problem": "",
        "url": "/replay?trace=stage-0",
    }


def test_the_document_is_that_of_zerosim_replay(client, standing):
    trace = load(standing[1] / "stage-3")
    expected = json.loads(json.dumps(replay_document(trace, None, "stage-3")))
    for query in ("", "?trace=stage-3", f"?trace=stage-3&iteration={expected['run']['iteration']}"):
        answer = client.get(f"/api/replay{query}")
        assert (answer.status_code, answer.mimetype) == (200, "application/json")
        assert plain(answer) == expected
    first = plain(client.get("/api/replay?trace=stage-3&iteration=0"))
    assert first == json.loads(json.dumps(replay_document(trace, 0, "stage-3")))


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("?trace=stage-9", 404, "there is no trace 'stage-9'"),
        ("?trace=", 404, "there is no trace"),
        ("?trace=../stage-3", 404, "there is no trace"),
        ("?trace=%2e%2e%2fstage-3", 404, "there is no trace"),
        ("?trace=/etc/passwd", 404, "there is no trace"),
        ("?trace=stage-3%00", 404, "there is no trace"),
        ("?trace=stage-3&iteration=7", 422, "iteration 7"),
        ("?trace=stage-3&iteration=x", 422, "iteration is 'x'"),
        ("?trace=stage-3&iteration=1e9", 422, "whole number"),
        ("?trace=stage-3&iteration=" + "9" * 5000, 422, "whole number"),
        ("?trace=" + "x" * 5000, 404, "there is no trace"),
    ],
)
def test_what_cannot_be_answered_is_one_line(client, query, status, words):
    answer = client.get(f"/api/replay{query}")
    assert (answer.status_code, answer.mimetype) == (status, "application/json")
    assert answer.json.keys() == {"error"}
    assert words in answer.json["error"]
    assert len(answer.json["error"].splitlines()) == 1
    assert len(answer.json["error"]) < 700


def test_a_damaged_trace_says_where(site, tmp_path):
    file = tmp_path / "stage-3" / "rank-1.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"sent_bytes":', b'"sent_bytes":1', 1))
    answer = site.client.get("/api/replay?trace=stage-3")
    assert answer.status_code == 422
    assert "rank-1.jsonl" in answer.json["error"]


def test_a_run_that_goes_on_is_read_again(site, tmp_path):
    file = tmp_path / "stage-3" / "rank-1.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    cut = site.client.get("/api/replay?trace=stage-3&iteration=0")
    assert any("rank 1" in note for note in plain(cut)["notes"])
    file.write_bytes(whole)
    site.later()
    again = site.client.get("/api/replay?trace=stage-3&iteration=0")
    assert not any("rank 1" in note for note in plain(again)["notes"])
    assert again.headers["ETag"] != cut.headers["ETag"]


def test_without_traces_there_is_a_page_that_says_so(tmp_path):
    site = make_site(tmp_path)
    assert site.client.get("/").headers["Location"] == "/replay"
    page = site.client.get("/replay")
    assert page.status_code == 200
    assert b"no runs yet" in page.data
    answer = site.client.get("/api/replay")
    assert answer.status_code == 404
    assert "zerosim run" in answer.json["error"]
    put_trace(tmp_path / "t")
    site.later()
    assert site.client.get("/").headers["Location"] == "/replay?trace=t"


@pytest.mark.parametrize("path", ["/api/replay?trace=stage-3", "/player/main.js", "/api/traces"])
def test_answers_are_packed_and_not_sent_twice(client, path):
    packed = client.get(path, headers={"Accept-Encoding": "gzip, br"})
    bare = client.get(path)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == bare.data
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert packed.headers["Cache-Control"] == "no-cache"
    assert packed.headers["ETag"] == bare.headers["ETag"]
    again = client.get(path, headers={"If-None-Match": packed.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    head = client.head(path)
    assert (head.status_code, head.data) == (200, b"")


def test_the_players_files(client):
    for name in player.modules():
        answer = client.get(f"/player/{name}")
        assert answer.status_code == 200, name
        assert answer.mimetype == "text/javascript"
    assert client.get("/player/player.css").mimetype == "text/css"


def test_a_browser_keeps_a_version_of_the_player_and_asks_for_no_file_twice(client):
    page = client.get("/replay?trace=stage-3").text
    addresses = re.findall(r'(?:href|src)="(/player/[^"]+)"', page)
    assert {address.partition("main.js")[0] for address in addresses if "main.js" in address} == {
        player.address()
    }
    for address in addresses:
        answer = client.get(address)
        assert answer.headers["Cache-Control"] == "max-age=31536000, immutable"
        assert answer.text == player.read(player.name_at(address))
    older = client.get("/player/v0123456789ab/main.js")  # of a page that was open before
    assert (older.status_code, older.headers["Cache-Control"]) == (200, "no-cache")


@pytest.mark.parametrize(
    "name",
    [
        "v0123/main.js", "v0123456789ab/v0123456789ab/main.js",
        "types.d.ts", "player.html", "nowhere.js", "../app.py", "draw/../main.js", "./main.js",
        "%2e%2e/app.py", "..%2fapp.py", "draw", "", "/etc/passwd", "main.js%00", "MAIN.JS",
        "draw//index.js", "..\\app.py", "player.css/",
    ],
)  # fmt: skip
def test_nothing_else_of_the_player_is_served(client, name):
    answer = client.get(f"/player/{name}")
    assert answer.status_code in (404, 308)
    assert len(answer.data.splitlines()) <= 6


def test_every_module_that_is_imported_is_announced(client):
    page = client.get("/replay?trace=stage-3").text
    announced = set(map(player.name_at, re.findall(r'rel="modulepreload" href="([^"]+)"', page)))
    assert announced == set(player.modules())
    named = {
        name
        for module in announced
        for name in re.findall(
            r'^(?:import|\} from).*"#player/([^"]+)"', player.read(module), re.MULTILINE
        )
    }
    assert named <= announced


def test_the_page_is_complete_and_asks_for_nothing_elsewhere(client):
    page = client.get("/replay?trace=stage-3&iteration=1").text
    assert page.startswith('<!doctype html>\n<html lang="en">')
    preload = '<link rel="preload" as="fetch" crossorigin="anonymous" href="/api/replay'
    assert f'{preload}?trace=stage-3&amp;iteration=1">' in page
    for found in re.findall(r'\s(?:src|href|action)="([^"]*)"', page):
        assert found.startswith(("/", "#")), found
        assert not found.startswith("//"), found
    loaded = re.findall(r'<script[^>]*src="([^"]+)"', page)
    for path in loaded:
        with client.get(path, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.status_code == 200, path
            assert answer.mimetype == "text/javascript"
    assert "component-suites" not in page  # neither Dash nor plotly


def test_dash_and_plotly_are_of_this_server_and_small(client):
    page = client.get("/verify").text
    bundles = re.findall(r'src="(/dash/_dash-component-suites/[^"]+)"', page)
    plotly = "/dash/_dash-component-suites/plotly/package_data/plotly.min.js"
    for path in (bundles[0], plotly):
        packed = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert gzip.decompress(packed.data) == client.get(path).data
    assert len(packed.data) < 450_000
    version = re.search(rb"plotly.js \(basic - minified\) v(\d+)", client.get(plotly).data)[1]
    assert version.decode() == get_plotlyjs_version().partition(".")[0]


def test_no_script_delays_the_player(client):
    """All scripts that run while the page is read are modules, and ours come first."""
    page = client.get("/replay").text
    kinds = re.findall(r"<script\b([^>]*)>", page)
    run = [kind for kind in kinds if "text/plain" not in kind and "json" not in kind]
    assert ['type="importmap"' in run[0], *('type="module"' in kind for kind in run[1:])] == [
        True
    ] * len(run)
    assert f"{player.address()}main.js" in run[1]


def test_what_the_page_may_do(client):
    policy = client.get("/replay").headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == "'self'"
    assert "unsafe" not in rules["script-src"]
    assert not re.search(r"https?:|\*|data:", rules["script-src"])
    assert rules["frame-ancestors"] == "'none'"


@pytest.mark.parametrize(
    "path",
    ["/", "/replay", "/api/traces", "/api/replay?trace=no", "/player/main.js", "/player/no",
     "/nowhere", "/dash/_dash-layout", "/dash/assets/runs.js", "/dash/", "/dash/nowhere"],
)  # fmt: skip
def test_every_answer_is_guarded(client, path):
    with client.get(path) as answer:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["dash/../../../etc/passwd", "dash/%2e%2e/plotly/__init__.py", "os/path.py", "dash/x"]
)
def test_dash_serves_its_scripts_and_no_more(client, path):
    answer = client.get(f"/dash/_dash-component-suites/{path}")
    assert answer.status_code == 404
    assert len(answer.text.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"output": "x"}, "a request from one of zerosim's pages to Dash"),
        ({"output": [OUTPUT]}, "a request from one of zerosim's pages to Dash"),
        ({"outputs": []}, "its outputs"),
        ({"outputs": [{"id": 1, "property": 2}]}, "its outputs"),
        ({"inputs": None}, "its inputs"),
        ({"inputs": [3]}, "its inputs"),
        ({"state": [{}]}, "its state"),
        ({"changedPropIds": 3}, "changedPropIds"),
        ({"changedPropIds": [{}]}, "changedPropIds"),
    ],
)
def test_what_no_page_of_ours_asks_dash_is_refused_in_one_line(client, capfd, change, words):
    answer = client.post(CALLBACK, json=asked_of_dash() | change)
    assert answer.status_code == 400
    assert answer.text.startswith("refused: ")
    assert words in answer.text
    assert len(answer.text.splitlines()) == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("body", ["{}", "[]", "3", "{", "[" * 30_000])
def test_a_body_that_asks_nothing_is_refused(client, body):
    answer = client.post(CALLBACK, data=body, content_type="application/json")
    assert (answer.status_code, len(answer.text.splitlines())) == (400, 1)


def test_addresses_that_are_none(client, capfd):
    assert client.post(CALLBACK, json=asked_of_dash({"a": 1})).status_code == 204
    answer = client.get("/dash/_dash-layout", headers={"Referer": "http://[bad"})
    assert (answer.status_code, answer.text) == (400, "refused: the Referer is not an address\n")
    assert client.get("/replay", headers={"Referer": "http://[bad"}).status_code == 200
    assert capfd.readouterr().err == ""


def test_there_are_no_other_pages(client):
    for path in ("/nowhere", "/dash/", "/dash/replay", "/static/x", "/assets/x", "/api", "/_mcp"):
        answer = client.get(path)
        assert (answer.status_code, answer.text) == (404, "there is no such page\n"), path
    page = client.get("/<b>nowhere", headers={"Accept": "text/html,*/*;q=0.8"})
    assert page.status_code == 404
    assert "<p>there is no such page</p>" in page.text
    assert "<b>" not in page.text
    assert "/nowhere?" not in page.text
    assert 'href="/lessons"' in page.text


@pytest.mark.parametrize("host", ["localhost", "LocalHost:8050", "127.0.0.1:1", "[::1]:8050",
                                  "192.168.1.7:8050", "localhost."])  # fmt: skip
def test_hosts_that_are_this_machine(client, host):
    assert client.get("/api/traces", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil.example:8050", "127.0.0.1.nip.io",
             "", "[::1", "<script>", "x" * 3000]
)  # fmt: skip
def test_another_name_of_this_machine_is_refused(client, host):
    for path in ("/", "/replay", "/api/traces", "/player/main.js", "/dash/_dash-layout"):
        answer = client.get(path, headers={"Host": host})
        assert answer.status_code == 403
        given = ascii(host)[1:-1][:80]
        assert answer.text.startswith(
            f"refused: the request names host {given}, and this server is"
        )
        assert len(answer.text.splitlines()) == 1
        assert len(answer.text) < 300
        assert answer.mimetype == "text/plain"


def test_names_of_this_machine():
    assert hosts_of("127.0.0.1") == {"127.0.0.1", "localhost"}
    assert {"lab.example", "localhost"} < hosts_of("Lab.Example")
    assert [is_loopback(host) for host in ("localhost", "127.3.2.1", "::1", "10.0.0.7", "lab")] == [
        True, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch", "options"])
def test_traces_are_only_read(client, method):
    for path in ("/", "/replay", "/api/replay", "/api/traces", "/player/main.js"):
        answer = getattr(client, method)(path)
        assert answer.status_code == 405
        assert answer.text == "refused: this server only reads traces\n"


def test_dash_may_ask_and_other_sites_may_not(client):
    assert callback(client).status_code == 200
    assert callback(client, headers={"Origin": "http://localhost"}).status_code == 200
    for origin in ("http://evil.example", "null", "http://localhost:9"):
        answer = callback(client, headers={"Origin": origin})
        assert (answer.status_code, answer.text) == (
            403, "refused: the request comes from another site's page\n",
        )  # fmt: skip


def test_a_request_that_is_too_large(client):
    answer = client.post(CALLBACK, data=b"x" * 100_000, content_type="application/json")
    assert answer.status_code == 413


def links(client, page="/replay", query="?trace=stage-3"):
    """What an open page asks for every few seconds."""
    return client.get("/runs", query_string={"page": page, "query": query}).text


def test_a_new_trace_appears_in_the_menu(site, tmp_path):
    shown = links(site.client)
    assert '<summary id="runs-title">stage-3</summary>' in shown
    assert shown.count("href=") == 2
    assert shown.count('aria-current="page"') == 1
    assert shown in site.client.get("/replay?trace=stage-3").text
    put_trace(tmp_path / "later")
    site.later()
    shown = links(site.client)
    assert 'href="/replay?trace=later"' in shown
    assert shown.count("href=") == 3
    (tmp_path / "later" / "manifest.json").write_bytes(b"{")
    site.later()
    shown = links(site.client)
    assert shown.count("href=") == 2
    assert "manifest.json cannot be read" in shown


@pytest.mark.parametrize("page", ["//evil.example", "/lessons", "/nowhere", "javascript:1", ""])
def test_the_menu_leads_to_pages_of_ours(client, page):
    assert 'href="/replay?trace=stage-0"' in links(client, page)
    assert 'href="/verify?trace=stage-0"' in links(client, "/verify")


class Structure(HTMLParser):
    """The elements of a page and the texts of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, tuple(name for name, _ in attrs)))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_never_markup(tmp_path, name):
    put_trace(tmp_path / "a" / name, model=name)
    put_trace(tmp_path / "b" / "good")
    bad, good = (make_site(tmp_path / part) for part in "ab")
    asked = {"?trace=good": good, f"?trace={quote(name)}": bad, f"?{name}": bad, "": bad}
    shapes = {}
    for query, site in asked.items():
        page = site.client.get("/replay", query_string=query.removeprefix("?")).text
        shapes[query] = Structure(page).elements
        assert not re.search(r"<script>alert|<img|<b>", page)
    assert len({tuple(shape) for shape in shapes.values()}) == 1
    listed = plain(bad.client.get("/api/traces"))["traces"]
    document = plain(bad.client.get("/api/replay", query_string={"trace": listed[0]["name"]}))
    assert document["name"] == listed[0]["name"] == name
    assert "\n" not in listed[0]["title"]
    assert bad.client.get(listed[0]["url"]).status_code == 200
    (tmp_path / "a" / name / "manifest.json").write_bytes(b"{")
    bad.later()
    problem = plain(bad.client.get("/api/traces"))["traces"][0]["problem"]
    assert len(problem.splitlines()) == 1


def test_a_mistake_of_ours_is_one_line_and_the_traceback_is_the_terminals(tmp_path, capsys):
    put_trace(tmp_path / "t")

    def fail(*_):
        raise RuntimeError("secret path")

    site = make_site(tmp_path, documents=Documents(fail))
    answer = site.client.get("/api/replay")
    assert (answer.status_code, answer.text) == (500, "the server failed: its terminal shows why\n")
    assert "RuntimeError: secret path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ],
)
def test_what_is_sent_is_json_and_from_our_own_pages(client, headers, status):
    assert callback(client, headers=headers).status_code == status
