"""What docs/api.md and the first notebook show is so: every block of both is run."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
from pathlib import Path

import pytest

import zerosim
from zerosim.base.tables import Table
from zerosim.lessons.notebooks.making import find_notebook

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "api.md"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def beside_the_lessons(tmp_path, monkeypatch):
    """A folder in which the paths of the examples lead to the committed traces."""
    (tmp_path / "lessons").mkdir()
    traces = REPOSITORY / "lessons" / "traces"
    for name in ("stage-0", "stage-3"):
        shutil.copytree(traces / "ring" / name, tmp_path / "lessons" / "traces" / "ring" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_example_of_the_page_runs(beside_the_lessons, capsys):
    blocks = _BLOCK.findall(PAGE.read_text())
    assert len(blocks) > 8
    script = beside_the_lessons / "page.py"
    script.write_text("\n".join(blocks))
    runpy.run_path(str(script))
    said = capsys.readouterr().out
    assert "unit is 'blocks.9': expected one of embedding, blocks.0" in said
    assert "2Ψ does not hold: rank 0 in iteration 0 moves 3.000 Ψ" in said
    assert Path("replay.html").stat().st_size > 100_000


def test_every_cell_of_the_notebook_runs_and_can_be_shown(beside_the_lessons, monkeypatch):
    def recorded(*, stage, ranks, steps):
        assert (ranks, steps) == (4, 2)  # those of the committed traces
        return zerosim.load(f"lessons/traces/ring/stage-{stage}")

    monkeypatch.setattr(zerosim, "run", recorded)
    notebook = json.loads(find_notebook("first-steps").text())
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    script = beside_the_lessons / "notebook.py"
    script.write_text("\n".join(as_script("".join(cell["source"])) for cell in cells))
    shown = []
    runpy.run_path(str(script), {"shown": shown})
    assert len(shown) == len(cells)
    assert any(isinstance(value, Table) for value in shown)
    for value in shown:
        assert value._repr_html_() if hasattr(value, "_repr_html_") else value.to_json()


def as_script(cell):
    """A cell, with what stands in its last line shown, as a notebook does."""
    tree = ast.parse(cell)
    if isinstance(tree.body[-1], ast.Expr):
        shown = ast.parse("shown.append(0)").body[0]
        shown.value.args = [tree.body[-1].value]
        tree.body[-1] = shown
    return ast.unparse(tree)
