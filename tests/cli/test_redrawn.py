"""`zerosim table`: figures that papers print, predicted beside published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.predict.plan.redrawn import FIGURES

CLOSE = {"activations": 0.015, "hides": 0.002}
"""Of figures whose digits nothing was fitted to: how far off a law is at most."""
DOCS = Path(__file__).parents[2] / "docs" / "simulate.md"


@pytest.fixture(scope="module")
def told():
    return {name: json.loads(command("table", name, "--json").out) for name in FIGURES}


def pairs(table):
    """Published and predicted, row by row."""
    names = [one["name"] for one in table["columns"]]
    published = next(name for name in names if name.startswith("published"))
    predicted = "predicted" + published.removeprefix("published")
    rows = [(row[published], row[predicted]) for row in table["rows"]]
    return [row for row in rows if row[0] is not None]


@pytest.mark.parametrize("name", CLOSE)
def test_a_law_has_what_was_published(told, name):
    found = pairs(told[name])
    assert len(found) >= 3
    for published, predicted in found:
        assert predicted == pytest.approx(published, rel=CLOSE[name])


@pytest.mark.parametrize("name", FIGURES)
def test_it_fits_a_wall(told, name):
    assert all(len(str(cell)) < 40 for row in told[name]["rows"] for cell in row.values())
    lines = command("table", name).out.splitlines()
    notes = ("source: ", "machine ", "predicted: ", "not predicted: ")
    numbers = [line for line in lines if not line.startswith(notes)]
    assert max(map(len, numbers)) < 120


def test_zero_3_collapses_at_a_fixed_batch(told):
    """As published: a third of the rate on four times the GPUs."""
    rates = [predicted for _, predicted in pairs(told["decay"])]
    assert rates[:3] == sorted(rates[:3], reverse=True)
    assert rates[2] < rates[0] / 3
    assert rates[5] < rates[3] / 3
    offs = [row["off_percent"] for row in told["decay"]["rows"]]
    assert offs[:2] == pytest.approx([0, 0], abs=0.2)  # fitted to these
    assert all(abs(one) < 12 for one in offs)


def test_zero_plus_plus_gains_where_links_are_few(told):
    gains = {}
    for row in told["plusplus"]["rows"]:
        gains.setdefault(row["tokens_a_gpu"], []).append(row["predicted_speed_up"])
    for by_links in gains.values():  # of 800, 400, 200, 100 Gb
        assert by_links == sorted(by_links)
        assert by_links[-1] > 1.5
    assert gains[1024][-1] > gains[2048][-1]


def test_infinity_s_bandwidths_reach_its_efficiencies(told):
    for row in told["infinity"]["rows"]:
        assert row["predicted_percent"] > float(row["published_percent"].removeprefix("over "))


def test_stage_3_sends_half_as_much_again(told):
    sent = [row["predicted_gb"] for row in told["traffic"]["rows"]]
    assert sent[0] == sent[1] == sent[2]
    assert sent[3] == pytest.approx(1.5 * sent[0], rel=1e-6)


def test_a_unit_of_all_blocks_is_nearly_the_whole_model(told):
    sizes = [row["predicted_gb"] for row in told["units"]["rows"]]
    assert sizes == sorted(sizes)
    assert sizes[-1] > 10 * sizes[0]


def test_a_ladder_goes_up_by_what_is_divided(told):
    """As published: P_a adds to C1 and to C3, and gradients that are divided add most."""
    c1, c2, c3, c4, c5 = (row["predicted_billions"] for row in told["ladder"]["rows"])
    assert c1 < c3 < c2 < c4 < c5
    for published, predicted in pairs(told["ladder"]):
        assert 1 < predicted / float(published) < 1.6  # what is in no law is in none of them


def test_a_gpu_is_faster_the_more_there_are(told):
    rows = told["superlinear"]["rows"]
    assert [row["predicted_batch"] for row in rows] == sorted(
        row["predicted_batch"] for row in rows
    )
    assert all(row["predicted_batch"] >= row["published_batch"] for row in rows)
    of_all = [row["predicted_pflops_of_all"] for row in rows]
    assert of_all[-1] / of_all[0] > rows[-1]["gpus"] / rows[0]["gpus"]


def test_small_batches_of_large_models_are_slower(told):
    rates = {row["model"]: row["predicted_tflops"] for row in told["throughput"]["rows"]}
    assert rates["100B"] == pytest.approx(38, rel=1e-3)  # fitted to it
    assert rates["100B"] > rates["120B"] > rates["140B"] > rates["170B"]


def test_gathering_ahead_gains_whatever_the_number_of_gpus(told):
    gains = [row["predicted_gain_percent"] for row in told["prefetching"]["rows"]]
    assert all(10 < one < 40 for one in gains)
    assert max(gains) < 1.2 * min(gains)


def test_more_disks_hold_more(told):
    for published, predicted in pairs(told["nodes"]):
        assert 1 < predicted / float(published) < 1.5


@pytest.mark.parametrize("name", FIGURES)
def test_what_is_printed_says_predicted_and_its_source_and_stands_in_the_docs(name):
    said = command("table", name)
    assert said.code == 0
    assert "predicted" in said.out
    assert "source: " in said.out
    assert f"zerosim table {name}" in DOCS.read_text(encoding="utf-8")


def test_an_unknown_figure_is_one_line():
    assert_one_line(command("table", "nothing"), "nothing", "paper", "decay")
