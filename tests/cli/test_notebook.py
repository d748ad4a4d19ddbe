"""`zerosim notebook`: a lesson or a puzzle as a file; what is there is kept."""

from __future__ import annotations

import json

import pytest

from tests.cli.command import assert_one_line, command
from zerosim.lessons.notebooks.making import notebooks


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_one_is_written_here_by_its_own_name_or_where_it_is_told(tmp_path):
    for args, file in (((), "puzzle10_zero_3.ipynb"), (("--out", "mine.ipynb"), "mine.ipynb")):
        answer = command("notebook", "zero-3", *args)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith(f"wrote {file}\nnext: ")
        assert json.loads((tmp_path / file).read_text())["nbformat"] == 4


def test_all_are_written_into_a_folder_and_none_is_replaced(tmp_path):
    taken = tmp_path / "all" / "lesson05_zero3.ipynb"
    taken.parent.mkdir()
    taken.write_text("mine")
    answer = command("notebook", "all", "--out", "all")
    assert_one_line(answer, "all/lesson05_zero3.ipynb already exists", "--overwrite")
    assert (taken.read_text(), [*taken.parent.iterdir()]) == ("mine", [taken])
    assert command("notebook", "all", "--out", "all", "--overwrite").code == 0
    assert {path.name for path in taken.parent.iterdir()} == {one.file_name for one in notebooks()}
    assert taken.read_text() != "mine"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("missing argument 'name'", "zerosim notebook --help")),
        (("zero9",), ("name is 'zero9'", "a lesson's number", "first-steps or all", "zero-3")),
        (("5", "--out", "no/x.ipynb"), ("cannot write no/x.ipynb", "an existing, writable folder")),
        (("5", "--out", "x" * 300), ("cannot write xxx", "too long")),
        (("5", "--out", "taken"), ("taken already exists", "--overwrite")),
        (("all", "--out", "taken"), ("cannot write taken/first_steps.ipynb", "Not a directory")),
    ],
)
def test_what_cannot_be_written_is_one_line(tmp_path, args, words):
    (tmp_path / "taken").write_text("mine")
    assert_one_line(command("notebook", *args), *words)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
