"""The language that commands speak."""

from tests.cli.command import command, process
from zerosim.puzzles import find_puzzle


def test_an_unknown_language_is_one_line(monkeypatch):
    said = command("--language", "fr", "show", "nowhere")
    assert (said.code, said.out) == (2, "")
    assert said.err == "zerosim: language is 'fr': expected one of en, zh\n"
    monkeypatch.setenv("ZEROSIM_LANGUAGE", "fr")
    assert command("show", "nowhere").err.startswith("zerosim: ZEROSIM_LANGUAGE is 'fr'")


def test_a_puzzle_is_set_in_the_language(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = process("puzzle", "ring-reduce-scatter", ZEROSIM_LANGUAGE="zh")
    assert said.code == 0
    file = find_puzzle("ring-reduce-scatter").file_name
    assert f"已写入 {file}" in said.out
    assert "wrote" not in said.out
    hint = process("puzzle", "ring-reduce-scatter", "--hint", "1", ZEROSIM_LANGUAGE="zh")
    assert hint.out.startswith("提示 1")
