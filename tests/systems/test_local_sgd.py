"""docs/systems.md's example: a system that another package brings, without an edit in zerosim."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "docs" / "local-sgd"
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
    ask(site, "trace", "--out", folder, "--", *TORCHRUN, EXAMPLE / "train.py")
    return folder


def ask(site, *words):
    """What a command prints in a process that has the example, or has not."""
    places = [str(site)] * (site is not None) + [os.environ.get("PYTHONPATH", "")]
    process = subprocess.run(
        (sys.executable, "-m", "zerosim", *map(str, words)),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.parametrize(("iteration", "count"), [(2, 2), (4, 0)])
def test_it_sends_2_psi_every_third_step_and_nothing_between(site, trace, iteration, count):
    report = json.loads(ask(site, "verify", "--json", "--iteration", iteration, trace))

    sent = f"{count}Ψ(N-1)/N" if count else "nothing"
    assert report["headline"] == f"local SGD sends {sent} a step, as the law of local SGD says."
    (law,) = report["systems"]
    assert (law["law_bytes"], law["sent_bytes"]) == (count * PSI * 4 // 2, count * PSI * 4 // 2)
    assert [wire["unexplained"] for wire in report["wires"]] == [0, 0]


def test_it_keeps_all_on_each_rank_and_replay_shows_the_average(site, trace):
    memory = json.loads(ask(site, "memory", "--json", trace))
    tour = json.loads(ask(site, "show", "--tour", "--json", "--iteration", 2, trace))

    assert memory["headline"] == (
        "This run of local SGD keeps 8Ψ bytes of model states on each rank, as the law says."
    )
    assert "Each rank keeps all parameters: 2.70 kB." in tour[0]["text"]
    assert "Update · average the parameters" in [stop["title"] for stop in tour]


def test_where_it_is_not_installed_the_trace_says_so(trace):
    report = json.loads(ask(None, "verify", "--json", trace))

    assert "by the trace, 'local SGD' divides the training" in json.dumps(report)
    assert report["rows"][0]["sent"][0]["trace"] == PSI * 4
