"""A folder of twelve submissions, most of which mean no good, is graded to its end."""

import json

import pytest

from tests.cli.command import start
from zerosim.puzzles import find_puzzle

FIRST = find_puzzle("ring-reduce-scatter")
WRONG = {wrong.name: wrong for wrong in FIRST.wrong}


def _with_body(*lines):
    head = "import torch\nimport torch.distributed as dist\n\n\n"
    return f"{head}def reduce_scatter(pieces, rank, ranks):\n    " + "\n    ".join(lines) + "\n"


SUBMISSIONS = {
    "right": FIRST.reference,
    "wrong": FIRST.program_of(WRONG["sends its own values on, not the sum"]),
    "hanging": _with_body("dist.recv(pieces[0], (rank - 1) % ranks)", "return pieces[rank]"),
    "endless": _with_body("while True:", "    pass"),
    "greedy": _with_body("return [torch.ones(2**30) for _ in range(8)]"),
    "syntax": "def reduce_scatter(pieces, rank, ranks)\n    return pieces\n",
    "empty": "",
    "misnamed": FIRST.reference.replace("def reduce_scatter(", "def reduce_and_scatter("),
    "printing": FIRST.reference.replace(
        "    for hop", "    print('x' * 2_000_000)\n    for hop", 1
    ),
    "killing": _with_body("import os", "os.kill(os.getpid(), 9)"),
    "copying": _with_body(
        "from pathlib import Path",
        "space = {}",
        "exec(Path(__file__).with_name('right.py').read_text(), space)",
        "return space['reduce_scatter'](pieces, rank, ranks)",
    ),
    "parricide": _with_body("import os", "os.kill(os.getppid(), 9)", "return pieces[rank]"),
}
PASS = {"right", "printing"}
SAID = {
    "wrong": ("contents", "in round"),
    "hanging": ("messages", "no rank can continue"),
    "endless": ("ends", ""),  # out of processor time, or on a busy machine of all time
    "greedy": ("ends", "allocate"),
    "killing": ("ends", "was killed (SIGKILL)"),
    "copying": ("ends", "FileNotFoundError"),
}
"""Of those that are judged and do not pass: the check, and words of the reason."""


@pytest.mark.ranks
@pytest.mark.long
def test_twelve_submissions_are_graded_to_the_end(tmp_path):
    folder = tmp_path / "submissions"
    folder.mkdir()
    for name, text in SUBMISSIONS.items():
        (folder / f"{name}.py").write_text(text)
    words = ("puzzle", "--grade", folder, "--out", tmp_path / "graded", "--json")
    with start(*words) as grading:
        out, err = grading.communicate()
    assert grading.returncode == 1
    assert [line.partition(": ")[2] for line in err.splitlines()] == [
        f"{name}.py, {'passes' if name in PASS else 'fails'}" for name in sorted(SUBMISSIONS)
    ]
    grades = {one["file"].rpartition("/")[2].removesuffix(".py"): one for one in json.loads(out)}
    assert sorted(grades) == sorted(SUBMISSIONS)
    assert {name for name, one in grades.items() if one.get("passes")} == PASS
    for name, (check, words) in SAID.items():
        assert (grades[name]["check"], grades[name]["problem"]) == (check, ""), name
        assert words in grades[name]["reason"], name
    assert "is not a Python program" in grades["syntax"]["problem"]
    for name in ("empty", "misnamed"):
        assert "defines no function of a puzzle" in grades[name]["problem"]
