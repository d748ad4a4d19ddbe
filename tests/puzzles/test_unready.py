"""What can be seen of a program before ranks are started."""

import pytest

from zerosim.puzzles import find_puzzle
from zerosim.puzzles.grading import _is_handed_in
from zerosim.puzzles.judge import judge
from zerosim.puzzles.running import Submission
from zerosim.puzzles.unready import unready

PUZZLE = find_puzzle("ring-all-gather")


@pytest.fixture
def no_ranks(monkeypatch):
    def fail(*_args):
        raise AssertionError("ranks were started")

    monkeypatch.setattr("zerosim.puzzles.running._run", fail)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (PUZZLE.task, len(PUZZLE.task.splitlines()), "not filled in"),
        ("def all_gather(piece, rank, ranks)\n    return []\n", 1, "SyntaxError"),
        ("def all_gather(piece, rank, ranks):\n  return 1\n   return 2\n", 3, "IndentationError"),
    ],
)
def test_it_is_said_before_ranks_are_started(no_ranks, tmp_path, text, line, said):
    file = tmp_path / PUZZLE.file_name
    file.write_text(text)
    verdict = judge(Submission(PUZZLE, file, tmp_path / "trace"))
    assert verdict.reason.check == "loads"
    assert said in verdict.reason.sentence
    assert verdict.reason.line == f"{PUZZLE.file_name}:{line}"


def test_what_is_begun_is_run(tmp_path):
    file = tmp_path / PUZZLE.file_name
    for text in (PUZZLE.reference, "", "def all_gather(a, b, c):\n    raise ValueError\n"):
        file.write_text(text)
        assert unready(file, PUZZLE.functions) is None


def test_what_an_archive_leaves_is_not_handed_in(tmp_path):
    names = ("a.py", "Ada_17_file_/a.py", "__MACOSX/a.py", "Ada_17_file_/__pycache__/a.py")
    assert [_is_handed_in(tmp_path.joinpath(name).relative_to(tmp_path)) for name in names] == [
        True, True, False, False,
    ]  # fmt: skip
