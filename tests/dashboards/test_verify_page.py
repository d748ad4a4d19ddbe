"""The Verify page: the numbers of `zerosim verify`, as HTML in which names are text."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qs

import pytest
from dash.exceptions import PreventUpdate

from tests.analysis.graph.runs import Plan, record
from tests.cli.traces import engine_trace, write
from tests.dashboards.samples import HOSTILE, make_site, put_trace
from tests.strategies import trace_files, write_files
from tests.theory.programs import fsdp, module, parameter
from tests.verify.program_traces import Program
from zerosim.dashboards.callbacks.verify import answer_question, query_of
from zerosim.dashboards.pages.verify import _choices
from zerosim.dashboards.texts import tied
from zerosim.record import load
from zerosim.theory import paper_table_1
from zerosim.verify import verify


def text_of(html: str) -> str:
    """What a reader sees."""
    body = html[html.index("<main>") : html.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


CALLBACK = "/dash/_dash-update-component"


def follow(client, search):
    """What the page's callback answers at an address: the texts of its components."""
    body = {
        "output": "..page.children..",
        "outputs": [{"id": "page", "property": "children"}],
        "inputs": [{"id": "address", "property": "search", "value": search}],
        "changedPropIds": ["address.search"],
    }
    answer = client.post(CALLBACK, json=body)
    assert answer.status_code == 200
    return [" ".join(texts_of(answer.json["response"]["page"]["children"]))]


def texts_of(part):
    """The texts of components as Dash sends them, in their order."""
    if isinstance(part, dict):
        return texts_of(part["props"].get("children"))
    if isinstance(part, list):
        return [text for one in part for text in texts_of(one)]
    return [] if part is None else str(part).split()


@pytest.mark.parametrize("query", ["?trace=stage-3", "?trace=stage-0&rank=1&iteration=0&psi=9&n=2"])
def test_a_callback_and_the_server_show_the_same(client, query):
    """What stands in the page before Dash is what Dash draws of its layout and of its callback."""
    written = text_of(client.get(f"/verify{query}").text)
    (asked,) = follow(client, query)
    assert asked.split() == written.split()
    referred = {"Referer": f"http://localhost/verify{query}"}
    layout = client.get("/dash/_dash-layout", headers=referred).json
    assert texts_of(layout["props"]["children"][1]) == asked.split()


def test_the_question_is_kept_in_the_address():
    found = answer_question("1,000", "8", "?trace=a%20b&rank=2")
    assert parse_qs(found[1:]) == {
        "trace": ["a b"], "rank": ["2"], "psi": ["1000"], "n": ["8"],
    }  # fmt: skip
    assert answer_question("7,500,000,000", "8", "?trace=a") == "?trace=a&n=8"
    for psi, count, search in (
        ("1,000", "8", found),  # it is answered
        ("7,500,000,000", "64", "?trace=a"),  # by default
        (3, "8", "?trace=a"),
        ("3", "8", {"a": 1}),
    ):
        with pytest.raises(PreventUpdate):
            answer_question(psi, count, search)
    assert query_of("?rank=1&rank=2&psi=").to_dict() == {"rank": "1", "psi": ""}


def test_the_figures_of_a_page_are_those_of_its_rank(tmp_path):
    sharded = fsdp(2, module("root", parameter("b", 8)), module("a", parameter("w", 12, 10)))
    Program(sharded).write(tmp_path / "program")
    layout = (
        make_site(tmp_path)
        .client.get(
            "/dash/_dash-layout",
            headers={"Referer": "http://localhost/verify?trace=program&rank=1"},
        )
        .text
    )
    for name in ("waterfall", "laws"):
        assert f'"id":"{name}"' in layout.replace(" ", "")


def test_of_many_iterations_those_around_stand_beside_each_other():
    values = [choice.value for choice in _choices({}, "iteration", range(100), 50)]
    assert values == [0, *range(45, 56), 99]
    assert len(_choices({}, "iteration", range(16), 3)) == 16


def test_it_says_what_verify_says(client, standing):
    report = verify(load(standing[1] / "stage-3"))
    answer = client.get("/verify?trace=stage-3")
    assert answer.status_code == 200
    seen = text_of(answer.text)
    assert report.headline in seen
    for row in report.rows:
        assert f"{row.sent[0].theory:,}" in seen
        assert row.purpose.value in seen
    for verdict in report.verdicts:
        assert verdict.title in seen
        assert " ".join(verdict.measured.split()) in seen
    assert f"{report.total('trace', 0):,}" in seen
    assert "not measured" in seen  # these traces were made without a wire
    assert re.search(r'id="total-trace">([\d,]+)<', answer.text)[1] == (
        f"{report.total('trace', 0):,}"
    )


def test_each_rank_can_be_chosen(client):
    assert "bytes sent by rank 0" in text_of(client.get("/verify?trace=stage-3").text)
    assert "bytes sent by rank 1" in text_of(client.get("/verify?trace=stage-3&rank=1").text)
    assert "bytes sent by rank 0" in text_of(client.get("/verify?trace=stage-3&rank=9").text)
    links = re.findall(r'href="(/verify\?[^"]*rank=\d)"', client.get("/verify?trace=stage-3").text)
    assert len(links) == 1  # the rank that is shown is no link
    for link in links:
        assert client.get(unescape(link)).status_code == 200


def test_the_tabs_lead_to_the_same_trace(client):
    for path in ("/verify", "/replay"):
        html = client.get(f"{path}?trace=stage-0").text
        assert 'href="/replay?trace=stage-0"' in html
        assert 'href="/verify?trace=stage-0"' in html
        assert re.search(rf'href="{path}\?trace=stage-0" aria-current="page"', html)


def test_the_list_of_runs_leads_to_the_same_page(client):
    assert 'href="/verify?trace=stage-3"' in client.get("/verify?trace=stage-0").text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("?trace=none", 404, "there is no trace 'none' here"),
        ("?trace=stage-3&iteration=99", 422, "iteration 99 is not complete"),
        ("?trace=stage-3&iteration=x", 422, "iteration is 'x': expected a whole number"),
    ],
)
def test_what_cannot_be_shown_is_said_in_one_line(client, query, status, words):
    answer = client.get(f"/verify{query}")
    assert answer.status_code == status
    assert words in text_of(answer.text)
    assert "runs-menu" in answer.text  # the list of runs helps
    assert "dash" not in answer.text.partition("</head>")[2]
    (asked,) = follow(client, query)
    assert words in asked


def test_a_program_without_a_law(tmp_path):
    written = record(Plan(num_ranks=2))
    foreign = replace(written, manifest=replace(written.manifest, config={}, units=(), buckets=()))
    (tmp_path / "foreign").mkdir()
    write_files(tmp_path / "foreign", trace_files(foreign))
    answer = make_site(tmp_path).client.get("/verify?trace=foreign")
    assert answer.status_code == 200
    seen = text_of(answer.text)
    assert "No law is known for this program" in seen
    assert "Which law fits?" not in seen


def test_memory_that_was_not_recorded_is_said(client):
    assert "recorded without memory" in text_of(client.get("/verify?trace=stage-3").text)


# ----------------------------------------------------------------------- the reader's table


def test_the_readers_own_numbers(client):
    seen = text_of(client.get("/verify?trace=stage-3&psi=1,000,000&n=10").text)
    assert "ZeRO-3 16Ψ/N 1.60 MB" in seen
    assert "data parallel 16Ψ 16.0 MB" in seen
    assert "3Ψ(N\N{MINUS SIGN}1)/N 5.40 MB" in seen  # 3 x 10^6 x 2 B x 9/10


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("psi=many&n=4", "'many' is not a count"),
        ("psi=0&n=4", "Ψ is 0: expected 1 to"),
        ("psi=10&n=99999999", "N is 99999999: expected 1 to 1,000,000"),
        ("psi=" + "9" * 500 + "&n=4", "expected 1 to"),
    ],
)
def test_wrong_numbers_of_the_reader_are_named(client, query, words):
    answer = client.get(f"/verify?trace=stage-3&{query}")
    assert answer.status_code == 200
    assert words in text_of(answer.text)
    assert "9" * 100 not in text_of(answer.text)


def test_the_papers_table_is_whole(client):
    seen = text_of(client.get("/verify?trace=stage-3").text)
    for cell in paper_table_1():
        assert f" {cell.printed} " in f"{seen} "


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(tmp_path, name):
    written = engine_trace(3)
    units = tuple(replace(unit, name=name + unit.name) for unit in written.manifest.units)
    manifest = replace(written.manifest, units=units, run={"model": name})
    write(tmp_path / "t", replace(written, manifest=manifest))
    html = make_site(tmp_path).client.get("/verify?trace=t&rank=<b>&psi=<script>x</script>").text
    for tag in ("<script>alert", "<img", "<b>bold", "<script>x"):
        assert tag not in html


def test_a_program_of_its_own(tmp_path):
    """What zerosim's engine did not run has its law, its causes and its wire on the page, too."""
    sharded = fsdp(2, module("root", parameter("b", 8)), module("a", parameter("w", 12, 10)))
    report = verify(Program(sharded).write(tmp_path / "program"))
    answer = make_site(tmp_path).client.get("/verify?trace=program&rank=1")
    assert answer.status_code == 200
    seen = text_of(answer.text)
    assert report.headline in seen
    for verdict in report.verdicts:
        assert " ".join(verdict.title.split()) in seen
    assert f"{report.total('trace', 1):,}" in seen
    assert f"{report.total('kernel', 1):,}" in seen
    assert "root parameters kept after forward: - 0.06Ψ(N-1)/N" in seen


def test_no_line_ends_between_a_sign_its_number_and_its_unit():
    said = (
        "kept after forward: - 0.27Ψ(N-1)/N, all-reduce: + 1.00 Ψ; 12 B of 3.2 MB, not 2 Boxes - no"
    )
    kept = (
        "kept after forward: -~0.27Ψ(N-1)/N, all-reduce: +~1.00~Ψ; 12~B of 3.2~MB, not 2 Boxes - no"
    )
    assert tied(said) == kept.replace("~", "\N{NO-BREAK SPACE}")


def test_why_a_folder_whose_name_is_no_text_has_no_such_iteration(tmp_path):
    put_trace(tmp_path / os.fsdecode(b"no \xff text"))
    answer = make_site(tmp_path).client.get("/verify?trace=no \ufffd text&iteration=9")
    assert answer.status_code == 422
    assert r"no \udcff text: expected one of 0 to 1" in text_of(answer.text)
