"""A name stands for one thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ("zerosim", "dashboards", "lessons")
STUDENTS = ("lessons/puzzles", "lessons/traces")
TWO_THINGS = {"Stage"}
"""ZeRO has stages, and so has a pipeline: the field has one word for both."""


def test_a_class_name_is_used_once():
    found = defaultdict(set)
    for file in (file for source in SOURCES for file in (ROOT / source).rglob("*.py")):
        name = file.relative_to(ROOT).as_posix()
        if name.startswith((*STUDENTS, "zerosim/dashboards", "zerosim/lessons")):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].add(name)
    twice = {name: sorted(files) for name, files in found.items() if len(files) > 1}
    assert set(twice) == TWO_THINGS, twice
