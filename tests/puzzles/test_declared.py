"""How puzzles are declared, listed and given out, and what of it is complained about."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.cli.command import command
from zerosim.base.errors import ConfigError
from zerosim.puzzles import find_puzzle, puzzle_of, puzzles
from zerosim.puzzles.bounds import bound

ROOT = Path(__file__).resolve().parents[2]


def test_each_puzzle_is_complete():
    numbers = [puzzle.number for puzzle in puzzles()]
    assert numbers == list(range(1, len(numbers) + 1))
    for puzzle in puzzles():
        assert len(puzzle.hints) == 3
        assert puzzle.words.splitlines()[0] == f"{puzzle.title}."
        for text in (puzzle.task, puzzle.reference, *map(puzzle.program_of, puzzle.wrong)):
            ast.parse(text)
            assert puzzle_of(text, "x.py") is puzzle
        assert ("NotImplementedError" in puzzle.task) == (puzzle.broken is None)


def test_five_programs_are_to_be_mended(tmp_path, monkeypatch):
    broken = [puzzle for puzzle in puzzles() if puzzle.broken is not None]
    assert len(broken) == 5
    assert len({puzzle.broken.check for puzzle in broken}) >= 4
    monkeypatch.chdir(tmp_path)
    assert "check it, then fix it" in command("puzzle", broken[0].name).out


def test_formulas_are_those_of_theory():
    assert bound("ring('all-reduce', elements, 4)", 4, {"elements": 256}) == 2 * 3 * 64 * 4
    assert bound("2 * ring('all-gather', 8, 2) + shard(10) + log2(ranks)", 4, {}) == 24 + 3 + 2
    assert bound("ring('all-gather', 8, 4, node)", 4, {"node": 2}) == 16
    assert bound("turns(8)", 4, {}) == 2 * (8 + 4 - 1)  # 2m of work and 2(p - 1) of bubble
    assert [bound("ranks - rank", 4, {}, rank) for rank in range(4)] == [4, 3, 2, 1]
    with pytest.raises(ConfigError, match="formula"):
        bound("__import__('os')", 4, {})


def test_a_puzzle_is_found_by_number_name_and_what_a_file_defines():
    first = puzzles()[0]
    assert find_puzzle("1") is find_puzzle("ring_reduce_scatter.py") is first
    with pytest.raises(ConfigError, match=r"no puzzle 'x'.*expected one of ring-reduce-scatter"):
        find_puzzle("x")
    with pytest.raises(ConfigError, match="is not a Python program"):
        puzzle_of("def", "x.py")
    with pytest.raises(ConfigError, match="defines no function"):
        puzzle_of("x = 1", "x.py")


def test_the_command_lists_gives_out_and_hints(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = command("puzzle")
    assert listed.code == 0
    assert all(puzzle.name in listed.out for puzzle in puzzles())
    given = command("puzzle", "zero-3")
    file = tmp_path / "zero_3.py"
    assert (given.code, file.read_text()) == (0, find_puzzle("zero-3").task)
    file.write_text("mine")
    assert "zero_3.py already exists and was not changed" in command("puzzle", "zero-3").out
    assert file.read_text() == "mine"
    hints = command("puzzle", "zero-3", "--hint", "2")
    assert [line[:7] for line in hints.out.splitlines()] == ["hint 1:", "hint 2:"]


def test_assignments_name_puzzles_and_their_points_add_up():
    text = (ROOT / "docs" / "assignments.md").read_text(encoding="utf-8")
    levels = text.split("\n## ")[1:4]
    assert [level.split(":")[0] for level in levels] == [f"Assignment {n}" for n in (1, 2, 3)]
    for level in levels:
        rows = re.findall(r"^\| (\S+) \| (.+?) \| (\d+) \|$", level, re.MULTILINE)
        assert sum(int(points) for _, _, points in rows) == 100
        for name, file, _ in rows:
            assert name == "questions" or file == f"`{find_puzzle(name).file_name}`"
    rubric = text.split("## Rubric")[1]
    checks = {wrong.check for puzzle in puzzles() for wrong in puzzle.wrong}
    assert all(re.search(rf"[ ,:]{check}\b", rubric) for check in checks)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no puzzle 'nothing': expected one of ring-reduce-scatter"),
        (["zero-3", "--hint", "4"], "hint is 4: expected 1 to 3"),
        (["zero-3", "--check", "x.py"], "check is x.py: expected a file"),
        (["--check", "x.py"], "expected its name before them"),
        (["zero-3", "--grade", "."], "expected none with --grade"),
        (["--grade", "empty"], "expected a folder with a .py file for a submission"),
        (["zero-3", "--grade", ".", "--hint", "1"], "give only one"),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    answer = command("puzzle", *words)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err


@pytest.mark.ranks
def test_a_folder_is_graded(tmp_path):
    first = puzzles()[0]
    folder = tmp_path / "submissions"
    folder.mkdir()
    (folder / "ada.py").write_text(first.reference)
    (folder / "bob.py").write_text(first.program_of(first.wrong[1]))
    (folder / "eve.py").write_text("raise SystemExit(")
    answer = command("puzzle", "--grade", folder, "--out", tmp_path / "t", "--json")
    assert answer.code == 1
    ada, bob, eve = json.loads(answer.out)
    assert (ada["passes"], ada["reason"]) == (True, None)
    assert (bob["passes"], bob["check"]) == (False, first.wrong[1].check)
    assert "is not a Python program: line 1: " in eve["problem"]


def test_a_table_says_what_could_not_be_judged(tmp_path):
    (tmp_path / "eve.py").write_text("def reduce_scatter(\n")
    answer = command("puzzle", "--grade", tmp_path, "--out", tmp_path / "t")
    assert answer.code == 1
    head, eve, last = answer.out.splitlines()
    assert head.split() == ["file", "puzzle", "passed", "fails", "why"]
    assert "eve.py is not a Python program: line 1: " in eve
    assert last.startswith("0 of 1 pass")
