"""`zerosim export`: a replay as one file; what is there is kept unless told otherwise."""

from __future__ import annotations

import pytest

from tests.cli.command import assert_one_line, command
from tests.cli.traces import engine_trace, write


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "t", engine_trace(3))


def test_it_writes_a_page_and_says_what_next(folder, tmp_path):
    file = tmp_path / "replay.html"
    answer = command("export", folder, "--html", file)
    assert (answer.code, answer.err) == (0, "")
    first, second = answer.out.splitlines()
    assert first.startswith(f"wrote {file}: iteration 1 of {folder}, ")
    assert second.startswith(f"next: open {file} in a browser")
    assert '"iteration":1,' in file.read_text()
    assert command("export", folder, "--html", file, "--overwrite", "--iteration", 0).code == 0
    assert '"iteration":0,' in file.read_text()


def test_a_file_that_is_there_is_kept(folder, tmp_path):
    file = tmp_path / "mine.html"
    file.write_text("mine")
    answer = command("export", folder, "--html", file)
    assert_one_line(answer, f"{file} is already there", "--overwrite")
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("nothing to write", "--html")),
        (("--html", "x.html", "--iteration", 9), ("iteration 9", "0 to 1")),
        (("--html", "x.html", "--iteration", "x"), ("iteration is 'x'", "whole number")),
        (("--html", "/proc/zerosim/x.html"), ("cannot write /proc/zerosim/x.html",)),
        (("--html", "t"), ("t is already there", "--overwrite")),
        (("--html", "t", "--overwrite"), ("cannot write t",)),
    ],
)
def test_what_cannot_be_written(folder, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    assert_one_line(command("export", folder, *args), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_what_is_no_trace(tmp_path):
    file = tmp_path / "x.html"
    assert_one_line(command("export", tmp_path / "no", "--html", file), "no such folder")
    for stage in (0, 3):
        write(tmp_path / "all" / f"stage-{stage}", engine_trace(stage))
    answer = command("export", tmp_path / "all", "--html", file)
    assert_one_line(answer, "stage-0, stage-3", f"try {tmp_path / 'all' / 'stage-3'}")
    assert not file.exists()


def test_a_trace_cut_short_is_exported_with_a_note(folder, tmp_path):
    file = folder / "rank-1.jsonl"
    file.write_bytes(file.read_bytes()[:-60])
    answer = command("export", folder, "--html", tmp_path / "x.html")
    assert answer.code == 0
    assert answer.err.startswith("note: rank 1")
