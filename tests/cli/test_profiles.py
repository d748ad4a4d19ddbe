"""`zerosim profiles`: one model, several systems, one table; messages for wrong input."""

from __future__ import annotations

import json
import math
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.base.config import Implementation, ModelName, RunConfig
from zerosim.cli import profiles
from zerosim.record import load
from zerosim.systems.catalogue import unavailable
from zerosim.train.models import build

PSI = sum(parameter.numel() for parameter in build(ModelName.MLP, 0).parameters())
OPTIONS = ("--ranks", 2, "--steps", 3, "--model", "mlp", "--timeout", 100)
NAMES = ("zerosim-0", "zerosim-3", "ddp", "ddp-zero", "fsdp2", "fsdp2-kept")


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profiles")
    return folder, command(
        "profiles", *OPTIONS, "--only", ",".join(NAMES), "--out", folder, "--json"
    )


@pytest.mark.ranks
def test_everybody_learns_the_same_and_sends_what_its_law_says(said):
    folder, answer = said
    assert answer.code in (0, 1)
    plain = json.loads(answer.out)
    assert plain["psi"] == PSI
    rows = dict(zip(NAMES, plain["rows"], strict=True))
    (loss,) = {round(row["loss"], 6) for row in rows.values()}
    assert loss < math.log(256)
    payloads = {name: Fraction(row["payloads"]) for name, row in rows.items()}
    assert payloads["ddp"] == 2
    assert payloads["ddp-zero"] == 3
    root = Fraction(_parameters_of_root(folder), PSI)
    assert payloads["fsdp2"] == 3 - root
    assert payloads["fsdp2-kept"] == 2
    for row in rows.values():
        assert row["ring_bytes"] == pytest.approx(Fraction(row["payloads"]) * PSI * 4 / 2, abs=8)
        assert row["wire_bytes"] >= row["ring_bytes"]
        assert row["peak_bytes"] > 4 * PSI
    # Gloo carries a reduce-scatter out as an all-reduce
    assert rows["fsdp2"]["wire_bytes"] > rows["fsdp2"]["ring_bytes"] + 0.9 * PSI * 4 / 2


def _parameters_of_root(folder):
    (strategy, *_) = reversed(load(folder / "fsdp2").ranks[0].strategies)
    (root,) = [bundle for bundle in strategy.bundles if bundle.name == "root"]
    return sum(parameter.elements for parameter in root.parameters)


@pytest.mark.ranks
def test_the_table_and_the_page_say_the_same(said):
    folder, answer = said
    verified = command("verify", folder / "ddp")
    assert verified.code == 0, verified.out
    refused = command("profiles", *OPTIONS, "--only", "ddp", "--out", folder)
    assert_one_line(refused, "already contains a trace", "--overwrite")
    page = command("profiles", *OPTIONS, "--only", "ddp", "--out", folder / "p", "--markdown")
    assert page.code == 0, page.err
    row = next(line for line in page.out.splitlines() if line.startswith("| DDP |"))
    assert "| 2.000 |" in row
    table = command("profiles", *OPTIONS, "--only", "ddp", "--out", folder / "t")
    assert "DDP" in table.out
    assert "2.000" in table.out
    assert json.loads(answer.out)["absent"] == {}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--only ddpp", ("'ddpp'", "ddp, ddp-zero")),
        ("--only tensor-parallel --model mlp", ("tensor-parallel", "--model gpt-tiny")),
        ("--only gpipe --ranks 3", ("gpipe", "3 ranks", "2 or 4")),
        ("--only hsdp --ranks 2", ("hsdp", "4 do")),
        ("--ranks 0", ("ranks is 0", "1 or more")),
        ("--model bert", ("'bert'", "gpt-tiny")),
    ],
)
def test_wrong_input_gets_one_line(tmp_path, args, words):
    assert_one_line(command("profiles", *args.split(), "--out", tmp_path / "p"), *words)
    assert not (tmp_path / "p").exists()


def test_every_implementation_has_its_reason():
    reasons = tomllib.loads((Path(profiles.__file__).parent / "profiles.toml").read_text())
    assert set(reasons) == set(Implementation)


def test_what_is_not_here_is_said_and_not_run(monkeypatch):
    monkeypatch.setattr("zerosim.systems.catalogue.find_spec", lambda _: None)
    run = RunConfig(model=ModelName.GPT_TINY, ranks=4)
    absent = {one for one in Implementation if unavailable(one, run)}
    assert absent == {one for one in Implementation if one.name.startswith("DEEPSPEED")}
