"""The notebooks of lessons and puzzles: each is written whole, and they run."""

from __future__ import annotations

import json
import runpy
import sys
import types

import pytest

from tests.cli.command import completed
from tests.view.reading.test_docs import as_script
from zerosim.base.errors import ConfigError
from zerosim.base.language import Language, speaking
from zerosim.lessons import lab
from zerosim.lessons.course import course
from zerosim.lessons.notebooks import desk
from zerosim.lessons.notebooks.making import INSTALL, find_notebook, notebooks
from zerosim.puzzles import find_puzzle, puzzles

WRITES = "%%writefile "
LESSONS = [str(one.number) for one in course()]
PUZZLES = [one.name for one in puzzles()]
FIRST = "ring-reduce-scatter"
OFTEN = {"0", "5", FIRST}
"""The others run in the long tests."""


def each(names):
    """Parameters of which the frequent ones always run."""
    return [pytest.param(name, marks=[] if name in OFTEN else [pytest.mark.long]) for name in names]


def cells_of(name):
    """A notebook's cells, as its file has them."""
    plain = json.loads(find_notebook(name).text())
    assert (plain["nbformat"], plain["nbformat_minor"]) == (4, 5)
    return plain["cells"]


def test_there_is_one_of_each_lesson_and_puzzle():
    assert [one.name for one in notebooks()] == ["first-steps", *LESSONS, *PUZZLES]
    names = {one.file_name for one in notebooks()}
    assert len(names) == len(notebooks())
    assert {"lesson05_zero3.ipynb", "puzzle10_zero_3.ipynb", "first_steps.ipynb"} <= names


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("05", "lesson05_zero3"),
        ("lesson05_zero3.ipynb", "lesson05_zero3"),
        ("zero-3", "puzzle10_zero_3"),
        ("zero_3.py", "puzzle10_zero_3"),
        ("first_steps", "first_steps"),
    ],
)
def test_a_notebook_is_found_by_the_names_that_it_has(name, file):
    assert find_notebook(name).file_name == f"{file}.ipynb"


@pytest.mark.parametrize("name", ["", "99", "-1", "5.5", "zero9"])
def test_what_is_no_notebook_is_refused(name):
    with pytest.raises(
        ConfigError, match=f"name is '{name}': expected a lesson's number, 0 to {len(course()) - 1}"
    ):
        find_notebook(name)


@pytest.mark.parametrize("name", [one.name for one in notebooks()])
def test_it_is_a_notebook_without_outputs(name):
    cells = cells_of(name)
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert "".join(cells[0]["source"]).startswith("# ")
    if name != "first-steps":
        assert "".join(cells[1]["source"]) == INSTALL
    for cell in cells:
        fields = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
            fields |= {"execution_count", "outputs"}
        assert set(cell) == fields
        assert all(line.endswith("\n") for line in cell["source"][:-1])


@pytest.mark.parametrize("name", ["5", "int8-gather", "bug-stops"])
def test_it_is_in_the_language_that_is_spoken(name):
    english = cells_of(name)
    with speaking(Language.CHINESE):
        chinese = cells_of(name)
    assert len(chinese) == len(english)
    for one, other in zip(chinese, english, strict=True):
        assert one["cell_type"] == other["cell_type"]
        if one["cell_type"] == "markdown":
            assert any("\u4e00" <= sign <= "\u9fff" for sign in "".join(one["source"]))
    assert 'os.environ["ZEROSIM_LANGUAGE"] = "zh"' in chinese[1]["source"]


def run(name, folder, program=""):
    """Run a notebook's cells one after another; what their last lines show."""
    script = []
    for cell in cells_of(name):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        if source.startswith(WRITES):
            first, _, body = source.partition("\n")
            (folder / first.removeprefix(WRITES)).write_text(program or body)
        else:
            script.append(as_script(source))
    file = folder / "notebook.py"
    file.write_text("\n".join(script))
    shown = []
    runpy.run_path(str(file), {"shown": shown})
    return shown


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """A folder that a notebook runs in, from the committed traces."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    monkeypatch.setattr(lab, "can_record", lambda: False)
    return tmp_path


@pytest.mark.parametrize("name", each(LESSONS))
def test_a_lesson_runs(notebook, capsys, name):
    run(name, notebook)
    lesson = course()[int(name)]
    said = capsys.readouterr().out
    assert said.count("Answer:") == len([*lesson.calls("reveal")])
    assert "take away" in said


@pytest.mark.ranks
@pytest.mark.parametrize("name", each(PUZZLES))
def test_a_puzzle_is_checked_and_watched(notebook, capsys, name):
    puzzle = find_puzzle(name)
    shown = run(name, notebook, puzzle.reference)
    assert f"{puzzle.name} is solved" in capsys.readouterr().out
    assert "<iframe" in shown[-1]._repr_html_()


@pytest.mark.ranks
def test_a_wrong_program_is_watched_at_its_first_illegal_step(notebook, capsys, monkeypatch):
    monkeypatch.setattr(desk.subprocess, "run", lambda words, **_: completed(words))
    puzzle = find_puzzle(FIRST)
    wrong = puzzle.wrong[1]
    replay = run(FIRST, notebook, puzzle.program_of(wrong))[-1]
    assert wrong.says in capsys.readouterr().out
    step = replay.document["steps"][replay.step]
    assert replay.document["texts"][step["why"]].startswith("The first illegal step: in round 2")


def test_nothing_is_watched_that_was_not_checked(monkeypatch):
    monkeypatch.setattr(desk, "_checked", {})
    with pytest.raises(desk.ConfigError, match=r'run check\("zero-3"\) first'):
        desk.watch("zero_3")
