"""The Plan page: the numbers of `zerosim plan`, at any address that a user may write."""

from __future__ import annotations

import json
import re
import sys
import textwrap
import time
from collections import Counter
from dataclasses import replace
from html import unescape
from urllib.parse import parse_qsl, unquote, urlencode

import pytest
from dash import dcc, html
from dash.exceptions import PreventUpdate

from tests.dashboards.samples import HOSTILE
from tests.deadlines import RANKS_S
from zerosim.base.config.huggingface import architecture
from zerosim.base.errors import ConfigError, RunError
from zerosim.base.language import term
from zerosim.base.quantities import format_bytes
from zerosim.dashboards import workbench
from zerosim.dashboards.app import make_app
from zerosim.dashboards.callbacks.plan import answer_typed
from zerosim.dashboards.classroom import Classroom, lesson_shelf
from zerosim.dashboards.components.markup import to_html
from zerosim.dashboards.components.plan import TABLES, unfolded, unfolding
from zerosim.dashboards.components.written import with_written
from zerosim.dashboards.documents import Documents
from zerosim.dashboards.library import Library
from zerosim.dashboards.pages import plan, plan_said
from zerosim.dashboards.pages.plan_compared import MINUS
from zerosim.dashboards.workbench import Workbench
from zerosim.predict.placement import known_machines
from zerosim.predict.plan import ask, make_plan
from zerosim.predict.plan.layouts import Fixed
from zerosim.record import load
from zerosim.schema.manifest import Source
from zerosim.theory.saved import Recompute

CALLBACK = "/dash/_dash-update-component"
SMALL = {"model": "gpt-2", "gpus": "8", "tokens": "512k"}


def text_of(page: str) -> str:
    """What a reader sees."""
    body = page[page.index("<main>") : page.index("</main>")]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def texts_of(part):
    if isinstance(part, dict) and part.get("type") == "Written":
        return unescape(re.sub(r"<[^>]+>", " ", part["props"]["html"])).split()
    if isinstance(part, dict):
        return texts_of(part["props"].get("children"))
    if isinstance(part, list):
        return [text for one in part for text in texts_of(one)]
    return [] if part is None else str(part).split()


def ask_dash(client, output, asked, *state):
    """What a callback puts into a component."""
    body = {
        "output": f"..{output}.children..",
        "outputs": [{"id": output, "property": "children"}],
        "inputs": [asked],
        "changedPropIds": [f"{asked['id']}.{asked['property']}"],
        **({"state": list(state)} if state else {}),
    }
    answer = client.post(CALLBACK, json=body)
    assert answer.status_code == 200
    return answer.json["response"][output]["children"]


def with_tables(part, tables):
    """A page with its tables unfolded."""
    if isinstance(part, list):
        return [with_tables(one, tables) for one in part]
    if not isinstance(part, dict):
        return part
    props = part["props"]
    if "html" in props:
        return part
    if props.get("id") in tables:
        return {"props": {"children": tables[props["id"]]}}
    return {"props": {"children": with_tables(props.get("children"), tables)}}


def test_a_callback_and_the_server_show_the_same(client):
    query = f"?{urlencode(SMALL)}&stage=3"
    written = text_of(client.get(f"/plan{query}").text).split()
    address = {"id": "plan-address", "property": "search", "value": query}
    tables = {}
    for name in TABLES:
        pressed = {"id": unfolding(name), "property": "n_clicks", "value": 1}
        tables[unfolded(name)] = ask_dash(client, unfolded(name), pressed, address)
    followed = ask_dash(client, "planner", address)
    assert texts_of(with_tables(followed, tables)) == written
    assert len(texts_of(followed)) < len(written)
    referred = {"Referer": f"http://localhost/plan{query}"}
    layout = client.get("/dash/_dash-layout", headers=referred).json
    assert texts_of(layout["props"]["children"][1]) == texts_of(followed)


def test_only_what_dash_answers_is_a_component_of_its_own(client):
    """Each takes Dash some time, and a page has hundreds of elements."""
    address = {"id": "plan-address", "property": "search", "value": f"?{urlencode(SMALL)}"}
    found = Counter(kinds_of(ask_dash(client, "planner", address)))
    assert (found["Graph"], found["Summary"]) == (3, 3)
    assert sum(found.values()) < 100


def kinds_of(part):
    if isinstance(part, list):
        return [kind for one in part for kind in kinds_of(one)]
    if not isinstance(part, dict):
        return []
    return [part["type"], *kinds_of(part["props"].get("children"))]


def test_what_is_written_is_the_same_element_with_its_texts_escaped():
    said = html.P(["a < b ", html.A("there", href="/plan?a=1&b=2")], className="small", role="note")
    field = dcc.Input(id="typed")
    (alone,) = with_written([said], frozenset())
    assert to_html(said) == (
        '<p class="small" role="note">a &lt; b <a href="/plan?a=1&amp;b=2">there</a></p>'
    )
    assert alone.to_plotly_json()["props"] == {
        "tag": "p",
        "attributes": {"className": "small", "role": "note"},
        "html": 'a &lt; b <a href="/plan?a=1&amp;b=2">there</a>',
    }
    (beside,) = with_written([html.Div([said, field, "words"])], frozenset())
    first, second, third = beside.children
    assert (first.tag, second, third) == ("p", field, "words")
    (kept,) = with_written([html.Div(html.P("open", id="more"))], frozenset({"more"}))
    assert type(kept.children[0]) is html.P


def test_its_numbers_are_those_of_the_command():
    shown = plan.view({**SMALL, "stage": "3"}).shown
    question = ask("gpt-2", 8, "dgx-h100", 512_000)
    best = make_plan(question, Fixed(stages=(3,), buckets=(None,))).best
    facts = {one.label: one.value for one in shown.facts}
    assert facts["peak memory of a GPU"] == f"{format_bytes(best.footprint.bytes)} of 80.0 GB"
    assert facts["time of a step"] == plan_said.seconds(best.step_s)
    assert facts["MFU"] == f"{best.mfu:.1%}"
    assert facts["tokens/s per GPU"] == f"{best.tokens_per_second / 8:,.0f}"
    assert f"predicted {plan_said.seconds(best.step_s)} per step" in shown.headline
    assert shown.remark.startswith("Predicted: ")
    assert sum(shown.memory["bytes"]) == best.footprint.bytes
    of_it = [row["seconds"] for row in shown.times if row["layout"] == "ZeRO-3"]
    assert sum(of_it) == pytest.approx(best.step_s)
    assert shown.command.startswith("zerosim simulate --stage 3 --model gpt-2 --ranks 8")


def test_every_choice_leads_to_a_page_that_has_it_chosen():
    for control in plan.view(SMALL).controls:
        for option in control.options[:3]:
            query = dict(parse_qsl(option.address.partition("?")[2]))
            there = next(one for one in plan.view(query).controls if one.name == control.name)
            assert [one.words for one in there.options if one.is_chosen] == [option.words]


def test_the_length_of_a_sequence():
    shown = plan.view({**SMALL, "stage": "3", "sequence": "512"}).shown
    question = ask("gpt-2", 8, "dgx-h100", 512_000, sequence=512)
    best = make_plan(question, Fixed(stages=(3,), buckets=(None,))).best
    assert f"predicted {plan_said.seconds(best.step_s)} per step" in shown.headline
    assert "the model's own 1024 tokens" in shown.no_command
    control = next(one for one in plan.view(SMALL).controls if one.name == "sequence")
    assert control.options[0].is_chosen
    assert "sequence" not in control.options[0].address
    longer = plan.view({**SMALL, "sequence": "4096"})
    assert longer.problem == ("sequence is 4096: expected 1 to 1,024 tokens, the context of gpt-2")
    assert "whole number" in plan.view({**SMALL, "sequence": "x"}).problem


def test_machines_are_grouped_by_gpu_the_newest_first():
    control = next(one for one in plan.view(SMALL).controls if one.name == "machine")
    labels = [group.label for group in control.groups]
    assert labels[:2] == ["B200 (Blackwell)", "H100 (Hopper)"]
    assert labels[-1] == "V100 (Volta)"
    hopper = [one.words for one in control.groups[1].values]
    assert hopper[:2] == ["dgx-h100", "h100"]
    assert "torchtitan-h100" in hopper[2:]
    assert sorted(one.words for one in control.options) == sorted(known_machines())


def test_two_layouts_beside_each_other():
    beside = plan.view({**SMALL, "stage": "3", "beside": "0.plain.full.1.1.1"}).shown
    question = ask("gpt-2", 8, "dgx-h100", 512_000)
    one = make_plan(question, Fixed(stages=(3,), buckets=(None,))).best
    fixed = Fixed(stages=(0,), buckets=(None,), batch=1, tensor=1, pipeline=1)
    other = make_plan(question, replace(fixed, recompute=Recompute.FULL)).best
    found = beside.compared
    whole, times, memory = found.parts
    rows = {row.what: row for row in whole.rows}
    assert rows["MFU"].first == f"{one.mfu:.1%}"
    assert rows["MFU"].second == f"{other.mfu:.1%}"
    assert rows["MFU"].difference.endswith(" points")
    longer = other.step_s / one.step_s - 1
    assert rows["time of a step"].difference == f"{'+' if longer > 0 else MINUS}{abs(longer):.1%}"
    assert {row.what for row in memory.rows} == {
        term(part.name) for each in (one, other) for part in each.footprint.parts
    }
    assert any(row.what == "recomputing" and row.second != "0.000 s" for row in times.rows)
    assert next(row["layout"] for row in beside.times).startswith("A: ")
    assert set(beside.stages) >= {row["layout"] for row in beside.memories}
    swapped = plan.view(dict(parse_qsl(found.swapped.partition("?")[2]))).shown.compared
    assert [row.first for row in swapped.parts[0].rows] == [row.second for row in whole.rows]
    alone = plan.view(dict(parse_qsl(found.alone.partition("?")[2]))).shown
    assert alone.compared is None
    assert alone.headline == beside.headline


def test_faster_layouts_beyond_what_was_measured_come_last(client):
    query = {"model": "llama-3-70b", "machine": "dgx-a100"}
    shown = plan.view(query).shown
    assert shown.num_beyond == 3
    answer, beyond = shown.fastest[0][0], [one for one, _ in shown.fastest[-3:]]
    assert answer.is_measured
    assert all(not one.is_measured and one.step_s < answer.step_s for one in beyond)
    text = text_of(client.get(f"/plan?{urlencode(query)}").text)
    assert "Predicted to be faster, but outside the measured range" in text
    there = plan.view(dict(parse_qsl(shown.fastest[-1][1].alone.partition("?")[2]))).shown
    assert any(note.startswith("Outside the measured range") for note in there.notes)
    assert plan.view(SMALL).shown.num_beyond == 0


def test_each_kind_and_each_listed_layout_can_be_compared_with():
    shown = plan.view(SMALL).shown
    addresses = [address for _, address in shown.kinds]
    addresses += [leads.beside for _, leads in shown.fastest]
    assert {"data parallel", "ZeRO-3", "pipeline parallel"} <= {name for name, _ in shown.kinds}
    for address in addresses:
        there = plan.view(dict(parse_qsl(address.partition("?")[2])))
        assert there.problem == ""
        assert there.shown.compared is not None


QWEN = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151_936,
    "max_position_embeddings": 32_768,
    "tie_word_embeddings": True,
    "transformers_version": "4.40",
    "mystery": 7,
}


def test_a_model_of_somebody_s_own_is_in_the_address(client, tmp_path):
    query = {"gpus": "8", "tokens": "1M", "config": json.dumps(QWEN)}
    shown = plan.view(query).shown
    assert shown.headline.startswith("config.json on 8 GPUs of dgx-h100")
    assert "qwen2, 24 layers of width 896, 494M parameters" in shown.model
    assert any("mystery = 7" in note for note in shown.notes)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN), encoding="utf-8")
    by_path = make_plan(ask(str(path), 8, "dgx-h100", 10**6), Fixed(buckets=(None,))).best
    assert sum(shown.memory["bytes"]) == by_path.footprint.bytes
    # what changes nothing has gone from the addresses, and all of them keep the rest
    for control in plan.view(query).controls:
        for option in control.options[:2]:
            asked = dict(parse_qsl(option.address.partition("?")[2]))
            if control.name == "model" and asked.get("model"):
                assert "config" not in asked
                continue
            kept = {name: value for name, value in QWEN.items() if name != "transformers_version"}
            assert json.loads(asked["config"]) == kept
    assert plan.view(asked).shown.headline.startswith("config.json on")
    alone = {"stage": "3", "options": "plain", "tensor": "1", "pipeline": "1", "batch": "1"}
    page = client.get(f"/plan?{urlencode({**query, **alone, 'recompute': 'full'})}").text
    assert 'method="GET"' in page
    assert "--model config.json" in page
    assert 'id="simulate"' not in page
    assert "this page simulates at most" in page


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "it is not JSON"),
        ("[]", "expected a JSON object"),
        ('{"model_type": "bert"}', "expected one of llama"),
        ('{"model_type": "llama"}', "hidden_size is missing"),
        (HOSTILE, "it is not JSON"),
        ("x" * 20_000, "expected at most 16384"),
    ],
)
def test_a_bad_configuration_is_one_line_of_the_page(client, config, words):
    found = plan.view({**SMALL, "config": config})
    assert found.shown is None
    assert words in found.problem
    assert "\n" not in found.problem
    assert "config" not in found.controls[1].options[0].address
    answer = client.get(f"/plan?{urlencode({**SMALL, 'config': config})}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text


def test_why_a_dry_run_s_peak_is_another_is_said_in_its_parts():
    shown = plan.view({"model": "llama-3-8b", "stage": "3", "options": "plain"}).shown
    assert shown.dry.startswith("A dry run of this layout peaks at 65.8 GB; this plan pred")
    assert plan.view({**SMALL, "options": "offload"}).shown.dry == ""


def test_of_a_grid_the_cells_lead_to_their_layouts():
    shown = plan.view(SMALL).shown
    for (tensor, pipeline), cell in shown.grid.items():
        assert f"tensor={tensor}&pipeline={pipeline}" in cell.address
    assert sum(cell.is_chosen for cell in shown.grid.values()) == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"gpus": "12"}, "multiple of 8"),
        ({"gpus": "-1"}, "whole number"),
        ({"gpus": "9" * 30}, "expected 1 to"),
        ({"model": "mlp"}, "expected one of"),
        ({"machine": "/etc/passwd.toml"}, "there is no machine"),
        ({"tokens": "much"}, "4M"),
        ({"tokens": "9" * 20}, "at most"),
        ({"tensor": "5"}, "divisor"),
        ({"pipeline": "0"}, "1 or more"),
        ({"batch": "64"}, "drop one"),
        ({"stage": "9"}, "expected one of 0, 1, 2, 3"),
        ({"options": HOSTILE}, "expected one of"),
        ({"recompute": "all"}, "expected one of"),
    ],
)
def test_what_cannot_be_planned_is_said_in_one_line(client, changed, words):
    query = {**SMALL, **changed}
    found = plan.view(query)
    assert found.shown is None
    assert words in found.problem
    assert "\n" not in found.problem
    answer = client.get(f"/plan?{urlencode(query)}")
    assert answer.status_code == 200
    assert "<script>alert" not in answer.text


def test_what_does_not_fit_is_shown_with_its_peak():
    shown = plan.view({"model": "zero-128b", "gpus": "8", "tokens": "512k", "stage": "0"}).shown
    assert not shown.fits
    assert "no layout fits" in shown.headline
    assert shown.fastest == ()


def test_what_is_typed_is_kept_in_the_address():
    assert answer_typed("24", "2M", "?model=gpt-2&stage=3").startswith("?model=gpt-2&")
    assert "gpus=24&tokens=2M" in answer_typed("24", "2M", "?model=gpt-2&stage=3")
    for gpus, tokens, search in (("64", "4M", ""), (3, "4M", ""), ("64", "4M", {"a": 1})):
        with pytest.raises(PreventUpdate):
            answer_typed(gpus, tokens, search)


@pytest.mark.parametrize(
    "query", [SMALL, {**SMALL, "gpus": "16", "options": "zero++"}, {**SMALL, "options": "infinity"}]
)
def test_points_of_charts_lead_to_their_layouts(query):
    shown = plan.view(query).shown
    assert set(shown.stages) == {row["layout"] for row in shown.memories}
    rows = [(row["layout"], row["gpus"]) for row in shown.scaling]
    without = [one for one in rows if one not in shown.sizes]
    assert without == [one for one in rows if one[0] == "ZeRO++" and one[1] <= 8]
    # a page keeps the plans of a few sizes: all layouts of one after another
    for (name, gpus), address in sorted(shown.sizes.items(), key=lambda one: one[0][1]):
        there = plan.view(dict(parse_qsl(address.partition("?")[2]))).shown
        assert there.chosen == (name if gpus > 1 else shown.scaling["layout"][0])
        assert f"on {gpus} GPU" in there.headline
    for name, address in shown.stages.items():
        assert plan.view(dict(parse_qsl(address.partition("?")[2]))).shown.chosen == name


class Serving:
    """The application, a client, and what simulates in place of zerosim."""

    def __init__(self, folder, program):
        library = Library([folder], shelf=lesson_shelf())
        command = (sys.executable, "-c", textwrap.dedent(program))
        self.workbench = Workbench(library.shelf, command=command)
        documents = Documents()
        classroom = Classroom(library, documents, self.workbench)
        self.client = make_app(library, documents, classroom=classroom).test_client()

    def simulate(self, query):
        answer = self.client.post("/api/plan/simulate", json={"query": query})
        assert answer.status_code == 202, answer.json
        job = answer.json
        end = time.monotonic() + RANKS_S
        while job["state"] not in ("done", "failed"):
            assert time.monotonic() < end
            time.sleep(0.02)
            job = self.client.get(f"/api/plan/simulate/{job['ticket']}").json
        return job


@pytest.fixture
def serving(tmp_path, request):
    made = Serving(tmp_path, request.param)
    yield made
    made.workbench.close()


COPIES = """
    import json, shutil, sys
    from pathlib import Path
    from zerosim.lessons.recordings import COMMITTED
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    assert job["dry"] and job["changes"][:3] == ["simulate", "--stage", "3"], job
    shutil.copytree(COMMITTED / "ring" / "stage-3", folder / job["runs"][0])
"""


@pytest.mark.parametrize("serving", [COPIES], indirect=True)
def test_a_layout_is_simulated_and_replay_shows_it(serving):
    query = f"?{urlencode({**SMALL, 'stage': '3'})}"
    job = serving.simulate(query)
    assert job["said"] == "The simulation is done. Opening Replay."
    name = unquote(job["address"].removeprefix("/replay?trace="))
    assert name == f"plan/{job['ticket']}/run"
    assert serving.client.get("/api/replay", query_string={"trace": name}).status_code == 200
    assert name not in serving.client.get("/api/traces").text
    assert 'id="simulate"' in serving.client.get(f"/plan{query}").text


@pytest.mark.parametrize("serving", ["import sys; sys.exit('it has no room')"], indirect=True)
def test_why_a_layout_is_not_simulated_is_said(serving):
    job = serving.simulate(f"?{urlencode(SMALL)}")
    assert (job["state"], job["said"]) == ("failed", "Not simulated: it has no room")


LARGE = {"model": "gpt-3", "gpus": "64", "tokens": "16M", "stage": "3", "options": "plain"}
LARGE |= {"tensor": "1", "batch": "1"}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (LARGE, "this page simulates at most"),
        ({**SMALL, "tensor": "2"}, "shards neither"),
        ({**SMALL, "machine": "/etc/passwd.toml"}, "there is no machine"),
        ({"model": HOSTILE}, "expected one of"),
    ],
)
def test_what_is_not_simulated_is_refused_before_anything_is_started(client, query, words):
    answer = client.post("/api/plan/simulate", json={"query": f"?{urlencode(query)}"})
    assert answer.status_code == 422
    assert words in answer.json["error"]
    if query is LARGE:
        page = client.get(f"/plan?{urlencode(query)}").text
        assert words in page
        assert 'id="simulate"' not in page


def test_others_only_see_the_command(client):
    query = f"?{urlencode(SMALL)}"
    elsewhere = {"environ_base": {"REMOTE_ADDR": "192.0.2.7"}}
    page = client.get(f"/plan{query}", **elsewhere).text
    assert "zerosim simulate" in page
    assert 'id="simulate"' not in page
    refused = client.post("/api/plan/simulate", json={"query": query}, **elsewhere)
    assert refused.status_code == 403
    assert client.get(f"/api/plan/simulate{query}").status_code in (404, 405)
    foreign = client.post(
        "/api/plan/simulate", json={"query": query}, headers={"Origin": "http://elsewhere.example"}
    )
    assert foreign.status_code == 403
    assert client.get("/api/plan/simulate/none").status_code == 404


@pytest.mark.ranks
def test_a_layout_is_done_dry_in_a_process_of_its_own(tmp_path):
    words, model = plan.command_at({"model": "gpt-tiny", "gpus": "8", "tokens": "8k", "stage": "3"})
    assert model == ""
    workbench.simulate(("run",), tmp_path, (*words[:-1], "1"))
    trace = load(tmp_path / "run", strict=True)
    assert (trace.manifest.source, len(trace.ranks)) == (Source.SIMULATED, 8)
    with pytest.raises(RunError, match="ranks is 0"):
        workbench.simulate(("run",), tmp_path, ("simulate", "--ranks", "0"))


OWN = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 512}
OWN |= {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
OF_OWN = {"config": json.dumps(OWN), "gpus": "2", "tokens": "1k", "stage": "3", "batch": "1"}

KEEPS = """
    import json, shutil, sys
    from pathlib import Path
    from zerosim.lessons.recordings import COMMITTED
    folder, job = Path(sys.argv[1]), json.loads(sys.argv[2])
    assert "config.json" in job["changes"], job
    given = json.loads((folder / "config.json").read_text())
    assert given["hidden_size"] == 64, given
    shutil.copytree(COMMITTED / "ring" / "stage-3", folder / job["runs"][0])
"""


@pytest.mark.parametrize("serving", [KEEPS], indirect=True)
def test_a_model_of_ones_own_is_simulated_with_its_configuration(serving):
    query = f"?{urlencode(OF_OWN)}"
    assert serving.simulate(query)["said"] == "The simulation is done. Opening Replay."
    assert 'id="simulate"' in serving.client.get(f"/plan{query}").text


@pytest.mark.ranks
def test_a_model_of_ones_own_is_done_dry(tmp_path):
    words, model = plan.command_at(OF_OWN)
    (tmp_path / "config.json").write_text(model, encoding="utf-8")
    workbench.simulate(("run",), tmp_path, words)
    trace = load(tmp_path / "run", strict=True)
    elements = sum(unit.elements for unit in trace.manifest.units)
    assert elements == architecture(OWN).num_parameters
    mixtral = {**OWN, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
    with pytest.raises(ConfigError, match="mixtral with 4 experts"):
        plan.command_at({**OF_OWN, "config": json.dumps(mixtral)})


def test_every_number_s_title_says_predicted(client):
    for query in (SMALL, {**SMALL, "model": "zero-128b"}):
        assert "predicted" in plan.view(query).shown.headline
    text = text_of(client.get(f"/plan?{urlencode(SMALL)}").text)
    for title in (
        "Memory of a GPU at its peak, predicted",
        "Time of a step by cause, predicted",
        "When is communication no longer hidden? (predicted)",
        "Tensor x pipeline parallel, predicted",
        "The fastest layouts, predicted",
    ):
        assert title in text
