"""The Compare page without a browser: which runs stand beside each other, and its addresses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.analysis.graph.runs import Plan, record
from tests.dashboards.samples import HOSTILE, make_site, put_trace
from tests.strategies import trace_files, write_files
from zerosim.dashboards.entry import TraceEntry
from zerosim.dashboards.pages.compare import chosen, siblings, view
from zerosim.record import load
from zerosim.view.replay import replay_document
from zerosim.view.replay.alignment import align


def put(folder: Path, **plan: object) -> Path:
    return write_files(folder, trace_files(record(Plan(**plan))))


def entry(name: str, folder: str = "a", stage: int | None = 3, **fields: object) -> TraceEntry:
    found = TraceEntry(
        name=name,
        folder=Path(f"/{folder}/{name}"),
        parts=(name,),
        stage=stage,
        complete=True,
        num_ranks=4,
        model="gpt",
    )
    return replace(found, **fields)


def names(entries) -> list[str]:
    return [one.name for one in entries]


def test_siblings_are_the_stages_of_the_folder():
    four = [entry(f"stage-{stage}", stage=stage) for stage in (0, 1, 2, 3)]
    elsewhere = entry("other", folder="b", stage=2)
    assert names(siblings(four[3], [*four, elsewhere])) == [f"stage-{k}" for k in range(4)]


def test_siblings_of_a_run_that_has_left_the_list():
    four = [entry(f"stage-{stage}", stage=stage) for stage in (0, 1, 2, 3)]
    assert names(siblings(four[3], four[:2])) == ["stage-0", "stage-1", "stage-3"]


def test_siblings_are_of_the_same_model_and_can_be_shown():
    first = entry("first")
    others = [
        entry("mlp", model="mlp"),
        entry("damaged", problem="damaged"),
        entry("good", stage=1),
    ]
    assert names(siblings(first, [first, *others])) == ["good", "first"]


def test_as_many_ranks_whole_runs_and_other_stages_come_first():
    first = entry("first")
    others = [
        entry("eight", stage=0, num_ranks=8),
        entry("cut", stage=1, complete=False),
        entry("native"),
        entry("two", stage=2),
        entry("none", stage=None),
    ]
    assert names(siblings(first, [first, *others])) == ["two", "first", "native", "none"]


def test_a_run_alone_in_its_folder_stands_beside_those_of_others():
    first, other = entry("first"), entry("other", folder="b", stage=0)
    assert names(siblings(first, [first, other])) == ["other", "first"]


def test_runs_are_chosen_once_each(tmp_path):
    for stage in (1, 3):
        put(tmp_path / f"stage-{stage}", stage=stage)
    library = make_site(tmp_path).library
    assert chosen(library, []) == ("stage-1", "stage-3")
    assert chosen(library, ["stage-3", "stage-3"]) == ("stage-1", "stage-3")
    assert chosen(library, ["stage-3", "stage-1", "stage-3"]) == ("stage-3", "stage-1")


def test_what_is_of_another_model_says_so():
    found = view(["a", "b"], [entry("a"), entry("b"), entry("c", model="mlp"), entry("d")])
    assert [(one.name, one.is_chosen, one.is_other) for one in found.choices] == [
        ("a", True, False),
        ("b", True, False),
        ("c", False, True),
        ("d", False, False),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Traces that stay as they are."""
    made = tmp_path_factory.mktemp("compared")
    for stage in (1, 3):
        put(made / f"stage-{stage}", stage=stage)
    put(made / "other", units=("only",))
    return made


@pytest.fixture(scope="module")
def client(folder):
    return make_site(folder).client


def test_an_address_says_which_runs_are_looked_at(client):
    answer = client.get("/compare?trace=stage-3")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/compare?trace=stage-1&trace=stage-3"
    assert answer.headers["Cache-Control"] == "no-store"
    answer = client.get(answer.headers["Location"])
    assert answer.status_code == 200
    assert 'data-query="trace=stage-1&amp;trace=stage-3"' in answer.text
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]


def test_the_alignment_is_served(client, folder):
    answer = client.get("/api/compare?trace=stage-1&trace=stage-3")
    documents = [replay_document(load(folder / name), name=name) for name in ("stage-1", "stage-3")]
    expected = align([json.loads(json.dumps(one)) for one in documents]).to_plain()
    assert answer.status_code == 200
    assert answer.json == json.loads(json.dumps(expected))


@pytest.mark.parametrize(
    ("query", "status", "why"),
    [
        ("", 422, "0 runs: expected 2 to 4"),
        ("trace=stage-1", 422, "1 runs: expected 2 to 4"),
        ("&".join(["trace=stage-1"] * 9), 422, "5 runs: expected 2 to 4"),
        ("trace=stage-1&trace=nothing", 404, "there is no trace 'nothing' here"),
    ],
)
def test_what_cannot_be_aligned_is_one_line(client, query, status, why):
    answer = client.get(f"/api/compare?{query}")
    assert answer.status_code == status
    assert why in answer.json["error"]
    assert "\n" not in answer.json["error"]


def test_pages_that_cannot_be_say_why(client):
    answer = client.get("/compare?trace=nothing")
    assert answer.status_code == 404
    assert "there is no trace" in answer.text


def test_a_run_alone_has_nothing_beside_it(tmp_path):
    put(tmp_path / "alone", stage=1)
    answer = make_site(tmp_path).client.get("/compare?trace=alone")
    assert answer.status_code == 422
    assert "alone is the only run here" in answer.text


def test_a_run_of_another_model_stands_beside_any(client):
    answer = client.get("/compare?trace=other")
    assert answer.headers["Location"] == "/compare?trace=stage-1&trace=other&trace=stage-3"
    answer = client.get("/api/compare?trace=stage-1&trace=other")
    assert any("compute different units" in note for note in answer.json["notes"])


@pytest.mark.parametrize("name", [one for one in HOSTILE if "/" not in one and "\0" not in one])
def test_hostile_names_are_text(tmp_path, name):
    put_trace(tmp_path / name[:80])
    put_trace(tmp_path / "plain", stage=0)
    answer = make_site(tmp_path).client.get(f"/compare?trace=plain&trace={quote(name[:80])}")
    assert answer.status_code == 200
    for tag in ("<script>alert", "<img", "<b>"):
        assert tag not in answer.text
