"""`zerosim table paper`: all 54 cells with the law's, and K, as text and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from tests.cli.command import assert_one_line, command, process
from zerosim.cli import table
from zerosim.theory import paper_table_1

CELLS = paper_table_1()


def test_every_cell_is_printed_beside_the_law():
    answer = command("table", "paper")
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("✓ 54 of the 54 cells of Table 1")
    for model in ("7.5B", "128B", "1T"):
        begin = next(place for place, line in enumerate(lines) if line.startswith(f"{model} "))
        for offset, num_ranks in enumerate((1, 4, 16, 64, 256, 1024)):
            words = lines[begin + 2 + offset].split()
            cells = [c for c in CELLS if (c.model, c.num_ranks) == (model, num_ranks)]
            assert words[0] == str(num_ranks)
            assert words[1::2] == [cell.printed for cell in cells]
            shown = [Fraction(word.replace(",", "")) for word in words[2::2]]
            assert shown == [cell.exact_gb for cell in cells]
    assert "arXiv 1910.02054" in answer.out


def test_k_of_each_optimizer():
    lines = command("table", "paper").out.splitlines()
    found = {}
    for line in lines:
        name = next((n for n in ("sgd with momentum", "adam", "sgd") if line.startswith(n)), None)
        if name is not None:
            rest = line.removeprefix(name).split("  ")
            words = [word.strip() for word in rest if word.strip()]
            found[name, words[0].split()[0]] = words[1:]
    assert found == {
        ("adam", "mixed"): ["12", "16Ψ", "4Ψ + 12Ψ/N", "2Ψ + 14Ψ/N", "16Ψ/N"],
        ("adam", "fp32"): ["8", "16Ψ", "8Ψ + 8Ψ/N", "4Ψ + 12Ψ/N", "16Ψ/N"],
        ("sgd with momentum", "mixed"): ["8", "12Ψ", "4Ψ + 8Ψ/N", "2Ψ + 10Ψ/N", "12Ψ/N"],
        ("sgd with momentum", "fp32"): ["4", "12Ψ", "8Ψ + 4Ψ/N", "4Ψ + 8Ψ/N", "12Ψ/N"],
        ("sgd", "mixed"): ["4", "8Ψ", "4Ψ + 4Ψ/N", "2Ψ + 6Ψ/N", "8Ψ/N"],
        ("sgd", "fp32"): ["0", "8Ψ", "8Ψ", "4Ψ + 4Ψ/N", "8Ψ/N"],
    }


def test_json():
    plain = json.loads(command("table", "paper", "--json").out)
    assert plain["agrees"] is True
    assert len(plain["cells"]) == 54
    for shown, cell in zip(plain["cells"], CELLS, strict=True):
        assert shown["printed_gb"] == cell.printed
        assert Fraction(shown["law_gb"]) == cell.exact_gb
    ks = {(each["optimizer"], each["precision"]): each["k"] for each in plain["optimizers"]}
    assert ks["adam", "mixed"] == 12
    assert ks["sgd", "fp32"] == 0
    for each in plain["optimizers"]:
        assert each["laws"]["data parallel"] == f"{sum(each['bytes_a_parameter'].values())}Ψ"


def test_a_cell_that_the_law_does_not_give(monkeypatch):
    """The check can fail."""
    wrong = (replace(CELLS[0], printed="121"), *CELLS[1:])
    monkeypatch.setattr(table, "paper_table_1", lambda: wrong)
    answer = command("table", "paper")
    assert answer.code == 1
    assert answer.out.startswith("✗ 53 of the 54 cells")
    assert json.loads(command("table", "paper", "--json").out)["agrees"] is False


def test_a_number_is_written_whole():
    assert table.exact_decimal(Fraction(30810, 1024)) == "30.087890625"
    assert table.exact_decimal(Fraction(4000)) == "4,000"
    assert table.exact_decimal(Fraction(15, 128)) == "0.1171875"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("table",), ("name", "zerosim table --help")),
        (("table", "periodic"), ("unknown table 'periodic'", "expected one of paper")),
        (("table", "paper", "more"), ("more", "--help")),
    ],
)
def test_wrong_words(args, words):
    assert_one_line(command(*args), *words)


def test_it_fits_80_columns_and_ascii():
    answer = process("table", "paper", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert answer.code == 0
    assert answer.out.isascii()
    assert "?" not in answer.out
    lines = command("table", "paper").out.splitlines()
    assert max(len(line) for line in lines[3:-8]) <= 80


def test_what_a_model_is_made_of(tmp_path):
    given = {
        "model_type": "mixtral",
        "hidden_size": 64,
        "intermediate_size": 128,
        "vocab_size": 100,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "max_position_embeddings": 32,
        "memory_tokens": 7,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    answer = command("table", "model", "--model", path, "--json")
    found = json.loads(answer.out)
    rows = found["rows"]
    block = next(row for row in rows if row["part"] == "block")
    expert, attention = 3 * 64 * 128, 2 * 64 * 64 + 2 * 64 * 32
    whole = attention + 4 * 64 + 2 * 64
    assert block["parameters"] == whole + 4 * expert
    assert block["active"] == whole + expert
    assert rows[-1]["parameters"] == 3 * block["parameters"] + 2 * 100 * 64 + 64
    assert found["notes"] == ["not counted: memory_tokens = 7"]
    assert_one_line(command("table", "model"), "expected `table model --model`")
    assert_one_line(command("table", "paper", "--model", "gpt-2"), "table is paper")
