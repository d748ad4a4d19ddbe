"""What docs/questions.md quotes is what its commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.command import command

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/questions.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^    \$ zerosim (.+)\n((?:    (?!\$).+\n)+)", TEXT, re.MULTILINE)


def test_a_dozen_questions_are_answered_by_commands():
    assert len(re.findall(r"^## ", TEXT, re.MULTILINE)) >= 12
    assert len(QUOTED) == len(re.findall(r"\$ zerosim", TEXT))


@pytest.mark.parametrize(("words", "quoted"), QUOTED, ids=[words for words, _ in QUOTED])
def test_what_is_quoted_is_printed(words, quoted, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "300")
    answer = command(*words.split())
    assert answer.code == 0
    printed = map(str.split, answer.out.splitlines())
    for line in quoted.splitlines():
        assert any(line.split() == one for one in printed), line  # in this order
