"""The notebooks of lessons and puzzles: they are what is written of their sources, and they run."""

from __future__ import annotations

import json
import runpy
import sys
import types

import pytest

from tests.cli.command import completed
from tests.view.reading.test_docs import as_script
from zerosim.lessons import lab
from zerosim.lessons.course import course
from zerosim.lessons.notebooks import desk
from zerosim.lessons.notebooks.making import FOLDER, INSTALL, notebooks
from zerosim.puzzles import find_puzzle, puzzles

BY_HAND = "first_steps.ipynb"
WRITES = "%%writefile "
LESSONS = [f"{one.path.stem}.ipynb" for one in course()]
OFTEN = {"lesson00_memory.ipynb", "lesson05_zero3.ipynb"}
"""The others run in the long tests."""
PUZZLES = {name: name[9:-6].replace("_", "-") for name in notebooks() if name.startswith("puzzle")}
FIRST = "puzzle01_ring_reduce_scatter.ipynb"


def each(names):
    """Parameters of which the frequent ones always run."""
    return [
        pytest.param(name, marks=[] if name in {*OFTEN, FIRST} else [pytest.mark.long])
        for name in names
    ]


def test_there_is_one_of_each_lesson_and_puzzle():
    assert len(notebooks()) == len(course()) + len(puzzles())
    assert {*PUZZLES.values()} == {one.name for one in puzzles()}


@pytest.mark.parametrize("name", notebooks())
def test_what_is_committed_is_what_is_written(name):
    committed = FOLDER / name
    hint = "python -m zerosim.lessons.notebooks"
    assert committed.exists(), hint
    assert committed.read_text(encoding="utf-8") == notebooks()[name], hint


def test_nothing_is_committed_that_nobody_writes():
    assert {path.name for path in FOLDER.glob("*.ipynb")} == {*notebooks(), BY_HAND}


@pytest.mark.parametrize("name", notebooks())
def test_it_is_a_notebook_without_outputs(name):
    plain = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert (plain["nbformat"], plain["nbformat_minor"]) == (4, 5)
    cells = plain["cells"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert "".join(cells[0]["source"]).startswith("# ")
    assert "".join(cells[1]["source"]) == INSTALL
    for cell in cells:
        fields = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
            fields |= {"execution_count", "outputs"}
        assert set(cell) == fields
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def run(name, folder, program=""):
    """Run a notebook's cells one after another; what their last lines show."""
    plain = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    script = []
    for cell in plain["cells"]:
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
    lesson = next(one for one in course() if name.startswith(one.path.stem))
    said = capsys.readouterr().out
    assert said.count("Answer:") == len([*lesson.calls("reveal")])
    assert "take away" in said


@pytest.mark.ranks
@pytest.mark.parametrize("name", each(PUZZLES))
def test_a_puzzle_is_checked_and_watched(notebook, capsys, name):
    puzzle = find_puzzle(PUZZLES[name])
    shown = run(name, notebook, puzzle.reference)
    assert f"{puzzle.name} is solved" in capsys.readouterr().out
    assert "<iframe" in shown[-1]._repr_html_()


@pytest.mark.ranks
def test_a_wrong_program_is_watched_at_its_first_illegal_step(notebook, capsys, monkeypatch):
    monkeypatch.setattr(desk.subprocess, "run", lambda words, **_: completed(words))
    puzzle = find_puzzle("ring-reduce-scatter")
    wrong = puzzle.wrong[1]
    replay = run(FIRST, notebook, puzzle.program_of(wrong))[-1]
    assert wrong.says in capsys.readouterr().out
    step = replay.document["steps"][replay.step]
    assert replay.document["texts"][step["why"]].startswith("The first illegal step: in round 2")


def test_nothing_is_watched_that_was_not_checked(monkeypatch):
    monkeypatch.setattr(desk, "_checked", {})
    with pytest.raises(desk.ConfigError, match=r'run check\("zero-3"\) first'):
        desk.watch("zero_3")
