"""docs/systems.md's example: a system that another package brings, without an edit in zerosim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "local-sgd"
PSI = 16 * 32 + 32 + 32 * 4 + 4
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the example is installed, as pip does it."""
    folder = tmp_path_factory.mktemp("site")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    options = ("--no-deps", "--no-build-isolation", "--target", folder)
    subprocess.run((*pip, *options, EXAMPLE), check=True)
    return folder


@pytest.fixture(scope="module")
def trace(site, tmp_path_factory):
    """Six steps on two ranks, traced by the command of the page."""
    folder = tmp_path_factory.mktemp("trace") / "run"
    ask(site, ("trace", "--out", folder, "--", *TORCHRUN, EXAMPLE / "train.py"))
    return folder


ASKED = {
    2: ("verify", "--json", "--iteration", 2),
    4: ("verify", "--json", "--iteration", 4),
    "memory": ("memory", "--json"),
    "tour": ("show", "--tour", "--json", "--iteration", 2),
}
ASKS = """
import json, sys
from tests.cli.command import command
for words in json.loads(sys.argv[1]):
    answer = command(*words)
    assert answer.code == 0, answer.err
    print(answer.out, end=chr(0))
"""


def ask(site, *commands):
    """What commands print in a process that has the example, or has not."""
    places = [str(site)] * (site is not None) + [os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        (sys.executable, "-c", ASKS, json.dumps([[*map(str, words)] for words in commands])),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout.split("\0")[:-1]


@pytest.fixture(scope="module")
def said(site, trace):
    """The answers to ASKED, of one process that has the example."""
    answers = ask(site, *((*words, trace) for words in ASKED.values()))
    return dict(zip(ASKED, map(json.loads, answers), strict=True))


@pytest.mark.parametrize(("iteration", "count"), [(2, 2), (4, 0)])
def test_it_sends_2_psi_every_third_step_and_nothing_between(said, iteration, count):
    report = said[iteration]

    sent = f"{count}Ψ(N-1)/N" if count else "nothing"
    assert report["headline"] == f"local SGD sends {sent} a step, as the law of local SGD says."
    (law,) = report["systems"]
    assert (law["law_bytes"], law["sent_bytes"]) == (count * PSI * 4 // 2, count * PSI * 4 // 2)
    assert [wire["unexplained"] for wire in report["wires"]] == [0, 0]


def test_it_keeps_all_on_each_rank_and_replay_shows_the_average(said):
    assert said["memory"]["headline"] == (
        "This run of local SGD keeps 8Ψ bytes of model states on each rank, as the law says."
    )
    tour = said["tour"]
    assert "Each rank keeps all parameters: 2.70 kB." in tour[0]["text"]
    assert "Update · average the parameters" in [stop["title"] for stop in tour]


def test_where_it_is_not_installed_the_trace_says_so(trace):
    report = json.loads(ask(None, ("verify", "--json", trace))[0])

    assert "according to the trace, 'local SGD' divides training" in json.dumps(report)
    assert report["rows"][0]["sent"][0]["trace"] == PSI * 4
