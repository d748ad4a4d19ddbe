"""Assignments on paper: each part of the file is a hand-out, and whole."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zerosim.dashboards.handouts import handouts

SOURCE = Path(__file__).parents[2] / "docs" / "assignments.md"
NAMES = ["assignment-1-rings", "assignment-2-zero", "assignment-3-at-scale", "rubric"]


def test_each_part_is_a_sheet_from_its_heading_on():
    text = SOURCE.read_text(encoding="utf-8")
    made = handouts(text)
    assert list(made) == NAMES
    for html in made.values():
        assert html.count("<h1>") == 1
        assert "<table>" in html
        assert "href" not in html
    rows = re.findall(r"^\| (?!---|puzzle|points)", text, re.MULTILINE)
    assert sum(html.count("<tr>") - 1 for html in made.values()) == len(rows)


def test_nothing_of_a_file_is_html():
    (html,) = handouts("before\n\n## A & <b>\n\n<script>1</script>\n").values()
    assert "<title>A &amp; &lt;b&gt; · zerosim</title>" in html
    assert "before" not in html
    assert "<script" not in html


@pytest.mark.browser
def test_they_are_printed(tmp_path):
    words = (sys.executable, "-m", "zerosim.dashboards.handouts", SOURCE, tmp_path / "out")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == [
        f"wrote {tmp_path / 'out' / name}.pdf" for name in NAMES
    ]
    for name in NAMES:
        content = (tmp_path / "out" / f"{name}.pdf").read_bytes()
        assert content.startswith(b"%PDF")
        assert content.count(b"/Type /Page\n") == 1  # a sheet is enough
